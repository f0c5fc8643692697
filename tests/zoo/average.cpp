#include <ATen/ops/zeros_like.h>
#include <cxtrain/accelerator/make_communicator.h>
#include <cxtrain/plugin/plugin_abi.h>
#include <cxtrain/reduce/tensor_sync.h>
#include <cxtrain/strategy/local_step.h>

/// Gradients that the ranks average, one after the other.
class AverageGradients final : public cxtrain::LocalGradients {
 public:
  AverageGradients(std::vector<cxtrain::NamedTensor> parameters, cxtrain::Communicator& communicator,
                   cxtrain::TensorSync& buffers, bool precise)
      : LocalGradients(std::move(parameters)),
        communicator_(communicator),
        buffers_(buffers),
        precise_(precise) {}

  void zero_gradients() override {
    LocalGradients::zero_gradients();
    averaged_ = false;
  }
  void begin_backward(bool /*completes_step*/) override { averaged_ = false; }
  void complete() override {
    if (std::exchange(averaged_, true)) return;
    for (cxtrain::NamedTensor& parameter : parameters()) {
      if (!parameter.tensor.requires_grad()) continue;  // frozen, on all ranks alike
      at::Tensor& gradient = parameter.tensor.mutable_grad();
      if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);  // this rank had no sample
      const at::Tensor sum = precise_ ? gradient.to(at::kDouble) : gradient;
      communicator_.all_reduce(sum, cxtrain::ReduceOp::avg);
      communicator_.join();
      if (precise_) gradient.copy_(sum);
    }
  }
  void bring_buffers() override { buffers_.broadcast(); }

 private:
  cxtrain::Communicator& communicator_;
  cxtrain::TensorSync& buffers_;
  bool precise_;
  bool averaged_ = false;
};

/// A replica of the model on every rank; after backward, the ranks average one gradient after the other.
class AverageStrategy final : public cxtrain::LocalStrategy {
 public:
  struct Args {
    bool precise = false;

    void fields(auto&& field) { field("precise", precise, "average gradients in float64"); }
  };
  explicit AverageStrategy(const Args& args) : precise_(args.precise) {}

  void connect() override {
    cxtrain::verify_same_parameters(module_->all_parameters(), context_->world);
    communicator_ = cxtrain::make_communicator(context_->world, context_->devices, context_->accelerator);
    cxtrain::TensorSync::broadcast_once(module_->all_parameters(), *communicator_);
    buffers_.emplace(module_->all_buffers(), *communicator_);
    buffers_->broadcast();
  }

  cxtrain::DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }

  void agree_on_buffers() override { buffers_->broadcast(); }
  std::string describe() const override {
    return "one all-reduce per parameter, " + communicator_->description();
  }

  void teardown() override {
    release_exchanges();
    buffers_.reset();
    communicator_.reset();
  }

 private:
  std::unique_ptr<cxtrain::GradientExchange> make_exchange(
      std::span<const cxtrain::OptimizerTarget> targets) override {
    return std::make_unique<AverageGradients>(cxtrain::parameters_of(targets), *communicator_, *buffers_,
                                              precise_);
  }

  bool precise_;
  std::unique_ptr<cxtrain::Communicator> communicator_;
  std::optional<cxtrain::TensorSync> buffers_;
};

CXTRAIN_PLUGIN("strategy average", [](cxtrain::Registry& registry) {
  registry.add<AverageStrategy>("average", "a replica per rank, one all-reduce per gradient",
                                {.ranks = cxtrain::StrategyTraits::Ranks::per_device,
                                 .devices = cxtrain::StrategyTraits::Devices::one,
                                 .launcher = cxtrain::StrategyTraits::Launcher::mpirun});
})
