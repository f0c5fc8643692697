#include "ddp_strategy.h"

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/agree.h"
#include "cxtrain/comm/make_communicator.h"
#include "cxtrain/reduce/optimizer_shards.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/sync_batch_norm.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/reduce/verify.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/whole_parameters.h"

namespace cxtrain {
namespace {

class DdpStrategy final : public Strategy {
 public:
  void place(Trainable& module, const StrategyContext& context) override {
    module_ = &module;
    context_ = &context;
    module.place(context.devices, context.precision);
    parameters_ = trainable_parameters(module);
  }

  void connect() override {
    const std::vector<NamedTensor> all = module_->all_parameters();
    verify_same_parameters(all, context_->world);
    communicator_ = make_communicator(context_->world, context_->devices, context_->options.timeout_seconds);
    TensorSync::broadcast_once(all, *communicator_);
    buffers_.emplace(module_->all_buffers(), *communicator_);
    buffers_->broadcast();
    if (context_->plan.sync_batchnorm && context_->world.size() > 1) batch_norm_.emplace(*communicator_);
    make_reducer();
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }
  std::unique_ptr<TrainedParameters> prepare(const OptimizerConfig&) override {
    return std::make_unique<WholeParameters>(
        parameters_, context_->precision,
        WholeParameters::Steps{.complete_gradients = [this] { reducer_->finish(); },
                               .bring_buffers = [this] { buffers_->broadcast(); }});
  }

  at::Tensor training_step(const MicroStep& step) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    if (step.first && reducer_->outdated()) make_reducer();
    reducer_->begin_backward(step.last);
    return local_training_step(*module_, step, *context_, [this] {
      reducer_->zero_gradients();
    });
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    local_forward(*module_, batch, batch_idx, *context_);
  }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    local_evaluation_step(*module_, stage, batch, batch_idx, *context_);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return local_predict_step(*module_, batch, batch_idx, *context_);
  }

  std::string describe() const override { return communicator_->description(); }

  void teardown() override {
    batch_norm_.reset();
    buffers_.reset();
    reducer_.reset();
    communicator_.reset();
  }

 private:
  /// For the parameters that require a gradient now. Collective.
  void make_reducer() {
    reducer_.reset();  // its hooks and memory before the next one's
    const DdpOptions& ddp = context_->options.ddp;
    // On several devices autograd has several threads, which would send buckets and statistics in any order.
    const bool ordered = !batch_norm_ || context_->devices.size() == 1;
    reducer_ = std::make_unique<Reducer>(
        parameters_, *communicator_, context_->world,
        ReducerOptions{.first_bucket_bytes = ddp.first_bucket_bytes,
                       .bucket_bytes = ddp.bucket_bytes,
                       .overlap = ordered && ddp.overlap.value_or(communicator_->overlaps()),
                       .find_unused_parameters = context_->plan.find_unused_parameters});
  }

  Trainable* module_ = nullptr;
  const StrategyContext* context_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::optional<TensorSync> buffers_;
  std::optional<SyncBatchNorm> batch_norm_;
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Strategy> make_ddp_strategy() { return std::make_unique<DdpStrategy>(); }

}  // namespace cxtrain
