#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/whole_parameters.h"
#include "traits.h"

/// `single`: one process, one device.
namespace cxtrain {
namespace {

class SingleStrategy final : public LocalStrategy {
 public:
  void place(Trainable& module, const StrategyContext& context) override {
    LocalStrategy::place(module, context);
    parameters_ = trainable_parameters(module);
  }
  void connect() override {}

  DataShard data_shard() const override { return {}; }
  std::unique_ptr<TrainedParameters> prepare(const OptimizerConfig&) override {
    return std::make_unique<WholeParameters>(parameters_, context_->precision, WholeParameters::Steps{});
  }

  at::Tensor training_step(const MicroStep& step) override {
    return local_training_step(*module_, step, *context_, [this] {
      // Forgotten rather than zeroed: autograd then hands over its tensors instead of adding to ours.
      for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    });
  }

  std::string describe() const override { return "one process on " + context_->device.str(); }

 private:
  std::vector<NamedTensor> parameters_;
};

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy single", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::SingleStrategy>("single", "one process, one device", cxtrain::single_traits());
})
