#include <ATen/ops/zeros_like.h>
#include <cxtrain/accelerator/make_communicator.h>
#include <cxtrain/plugin/plugin_abi.h>
#include <cxtrain/reduce/tensor_sync.h>
#include <cxtrain/strategy/local_step.h>
#include <cxtrain/strategy/whole_parameters.h>

/// A replica of the model on every rank; after backward, the ranks average one gradient after the other.
class AverageStrategy final : public cxtrain::LocalStrategy {
 public:
  struct Args {
    bool precise = false;

    void fields(auto&& field) { field("precise", precise, "average gradients in float64"); }
  };
  explicit AverageStrategy(const Args& args) : precise_(args.precise) {}

  void place(cxtrain::Trainable& module, const cxtrain::StrategyContext& context) override {
    LocalStrategy::place(module, context);
    parameters_ = cxtrain::trainable_parameters(module);
  }

  void connect() override {
    cxtrain::verify_same_parameters(module_->all_parameters(), context_->world);
    communicator_ = cxtrain::make_communicator(context_->world, context_->devices, context_->accelerator);
    cxtrain::TensorSync::broadcast_once(module_->all_parameters(), *communicator_);
    buffers_.emplace(module_->all_buffers(), *communicator_);
    buffers_->broadcast();
  }

  cxtrain::DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }

  std::unique_ptr<cxtrain::TrainedParameters> prepare(const cxtrain::OptimizerConfig&) override {
    cxtrain::WholeParameters::Steps steps{.complete_gradients = [this] { average_gradients(); },
                                          .bring_buffers = [this] { buffers_->broadcast(); }};
    return std::make_unique<cxtrain::WholeParameters>(parameters_, context_->precision, std::move(steps));
  }

  at::Tensor training_step(const cxtrain::MicroStep& step) override {
    return cxtrain::local_training_step(*module_, step, *context_, [this] {
      for (cxtrain::NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    });
  }

  void agree_on_buffers() override { buffers_->broadcast(); }
  std::string describe() const override {
    return "one all-reduce per parameter, " + communicator_->description();
  }

  void teardown() override {
    buffers_.reset();
    communicator_.reset();
  }

 private:
  void average_gradients() {
    for (cxtrain::NamedTensor& parameter : parameters_) {
      if (!parameter.tensor.requires_grad()) continue;  // frozen, on all ranks alike
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);  // this rank had no sample
      const at::Tensor sum = precise_ ? gradient.to(at::kDouble) : gradient;
      communicator_->all_reduce(sum, cxtrain::ReduceOp::avg);
      communicator_->join();
      if (precise_) gradient.copy_(sum);
    }
  }

  bool precise_;
  std::vector<cxtrain::NamedTensor> parameters_;
  std::unique_ptr<cxtrain::Communicator> communicator_;
  std::optional<cxtrain::TensorSync> buffers_;
};

CXTRAIN_PLUGIN("strategy average", [](cxtrain::Registry& registry) {
  registry.add<AverageStrategy>("average", "a replica per rank, one all-reduce per gradient",
                                {.ranks = cxtrain::StrategyTraits::Ranks::per_device,
                                 .devices = cxtrain::StrategyTraits::Devices::one,
                                 .launcher = cxtrain::StrategyTraits::Launcher::mpirun});
})
