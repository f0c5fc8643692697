#include "cxtrain/optim/clip.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/precision/master_weights.h"
#include "cxtrain/strategy/local_step.h"

/// `single`: one process, one device.
namespace cxtrain {
namespace {

class SingleStrategy final : public Strategy {
 public:
  void setup(Trainable& module, const StrategyContext& context) override {
    module_ = &module;
    context_ = &context;
    module.place(context.devices, context.precision);
    parameters_ = trainable_parameters(module);
    masters_ = MasterWeights(parameters_, context.precision);
  }

  DataShard data_shard() const override { return {}; }
  std::vector<NamedTensor> optimizer_parameters() const override { return masters_.parameters(); }

  at::Tensor training_step(const MicroStep& step) override {
    return local_training_step(*module_, step, *context_, [this] {
      masters_.forget_gradients();
      // Forgotten rather than zeroed: autograd then hands over its tensors instead of adding to ours.
      for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    });
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    local_forward(*module_, batch, batch_idx, *context_);
  }

  void synchronize_gradients() override { masters_.take_gradients(); }
  std::span<const at::Tensor> gradients() override { return masters_.gradients(); }
  at::Tensor gradient_norm() override { return cxtrain::gradient_norm(masters_.gradients()); }
  void after_optimizer_step() override { masters_.write_back(); }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    local_evaluation_step(*module_, stage, batch, batch_idx, *context_);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return local_predict_step(*module_, batch, batch_idx, *context_);
  }
  std::string describe() const override { return "one process on " + context_->device.str(); }

 private:
  Trainable* module_ = nullptr;
  const StrategyContext* context_ = nullptr;
  std::vector<NamedTensor> parameters_;
  MasterWeights masters_;
};

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy single", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Strategy>("single", "one process, one device", {}, [](const cxtrain::Arguments&) {
    return std::make_unique<cxtrain::SingleStrategy>();
  });
})
