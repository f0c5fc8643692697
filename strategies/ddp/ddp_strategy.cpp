#include "cxtrain/comm/make_communicator.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/reduce/verify.h"
#include "cxtrain/strategy/local_step.h"

/// `ddp`: a replica of the model on every rank, gradients averaged over all of them.
namespace cxtrain {
namespace {

class DdpStrategy final : public Strategy {
 public:
  void setup(Trainable& module, const StrategyContext& context) override {
    module_ = &module;
    context_ = &context;
    module.place(context.device, context.precision.module_dtype);
    const std::vector<NamedTensor> all = module.all_parameters();
    verify_same_parameters(all, context.world);

    communicator_ =
        make_communicator(context.world, context.plan, context.device, context.options.timeout_seconds);
    TensorSync::broadcast_once(all, *communicator_);
    buffers_.emplace(module.all_buffers(), *communicator_);
    buffers_->broadcast();

    parameters_ = trained_parameters(module);
    const DdpOptions& ddp = context.options.ddp;
    reducer_ =
        std::make_unique<Reducer>(parameters_, *communicator_, context.world,
                                  ReducerOptions{.first_bucket_bytes = ddp.first_bucket_bytes,
                                                 .bucket_bytes = ddp.bucket_bytes,
                                                 .overlap = ddp.overlap.value_or(communicator_->overlaps()),
                                                 .find_unused_parameters = ddp.find_unused_parameters});
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }
  std::vector<NamedTensor> optimizer_parameters() const override { return parameters_; }

  at::Tensor training_step(const MicroStep& step) override {
    reducer_->begin_backward(step.last);
    return local_training_step(*module_, step, *context_, [this] {
      gradients_.clear();
      reducer_->zero_gradients();
    });
  }

  void synchronize_gradients() override {
    reducer_->finish();
    collect_gradients(parameters_, gradients_);
  }

  std::span<const at::Tensor> gradients() override { return gradients_; }
  // Every rank has all gradients, already averaged: its norm is the norm.
  at::Tensor gradient_norm() override { return cxtrain::gradient_norm(gradients_); }

  // What the forward passes made of the buffers differs between ranks; rank 0's holds.
  void after_optimizer_step() override { buffers_->broadcast(); }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    local_evaluation_step(*module_, stage, batch, batch_idx, *context_);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return local_predict_step(*module_, batch, batch_idx, *context_);
  }
  void reduce_metrics(std::span<double> sums) override { context_->world.sum(sums); }

  std::string describe() const override { return communicator_->description(); }

  void teardown() override {
    gradients_.clear();
    buffers_.reset();
    reducer_.reset();
    communicator_.reset();
  }

 private:
  Trainable* module_ = nullptr;
  const StrategyContext* context_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::optional<TensorSync> buffers_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace
}  // namespace cxtrain

CXTRAIN_PLUGIN("strategy ddp", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Strategy>(
      "ddp", "a replica per rank, gradients averaged over all ranks", {},
      [](const cxtrain::Arguments&) { return std::make_unique<cxtrain::DdpStrategy>(); });
})
