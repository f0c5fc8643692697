#include "ddp_strategy.h"

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/agree.h"
#include "cxtrain/comm/make_communicator.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/precision/master_weights.h"
#include "cxtrain/reduce/optimizer_shards.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/sync_batch_norm.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/reduce/verify.h"
#include "cxtrain/strategy/local_step.h"

namespace cxtrain {
namespace {

/// Whether dividing the update saves more than fetching the other ranks' shards costs: where the optimizer
/// keeps state, and the model is large enough that two more meetings of the ranks do not count. An update by
/// Adam touches an element seven times, by SGD with momentum five, without three; the exchange touches it
/// twice, once of these in another core's cache (benchmarks/RESULTS.md).
bool sharding_pays(const OptimizerConfig& optimizer, const std::vector<NamedTensor>& parameters) {
  constexpr std::size_t kSmallest = std::size_t{256} << 10;
  if (std::holds_alternative<LibTorchOptimizer>(optimizer)) return false;  // updates whole parameters
  const auto* sgd = std::get_if<Sgd>(&optimizer);
  if (sgd != nullptr && sgd->momentum == 0) return false;
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : parameters) bytes += tensor.nbytes();
  return bytes >= kSmallest;
}

class DdpStrategy final : public Strategy {
 public:
  void setup(Trainable& module, const StrategyContext& context) override {
    module_ = &module;
    context_ = &context;
    run_agreed(context.world, [&] { module.place(context.devices, context.precision); });
    const std::vector<NamedTensor> all = module.all_parameters();
    verify_same_parameters(all, context.world);

    communicator_ = make_communicator(context.world, context.devices, context.options.timeout_seconds);
    TensorSync::broadcast_once(all, *communicator_);
    buffers_.emplace(module.all_buffers(), *communicator_);
    buffers_->broadcast();
    if (context.plan.sync_batchnorm && context.world.size() > 1) batch_norm_.emplace(*communicator_);

    parameters_ = trainable_parameters(module);
    masters_ = MasterWeights(parameters_, context.precision);
    make_reducer();
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }
  std::vector<NamedTensor> optimizer_parameters() const override { return masters_.parameters(); }
  void setup_optimizer(const OptimizerConfig& optimizer) override {
    const std::optional<bool> wish = context_->options.ddp.shard_optimizer;
    const bool wanted = shards_ == nullptr && wish.value_or(sharding_pays(optimizer, masters_.parameters()));
    if (context_->world.max(wanted ? 0 : 1) != 0) return;  // not on every rank
    divide_update();
    if (shards_ != nullptr) {
      log_info("optimizer: the ranks of a node divide its work");
    } else if (wish) {
      warn_of_whole_updates();
    }
  }
  std::span<const ElementRange> optimizer_shards() const override { return ranges_; }

  at::Tensor training_step(const MicroStep& step) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    if (step.first && reducer_->outdated()) make_reducer();
    reducer_->begin_backward(step.last);
    return local_training_step(*module_, step, *context_, [this] {
      masters_.forget_gradients();
      reducer_->zero_gradients();
    });
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    local_forward(*module_, batch, batch_idx, *context_);
  }

  void synchronize_gradients() override {
    reducer_->finish();
    masters_.take_gradients();
  }

  std::span<const at::Tensor> gradients() override { return masters_.gradients(); }
  // Every rank has all gradients, already averaged: its norm is the norm.
  at::Tensor gradient_norm() override { return cxtrain::gradient_norm(masters_.gradients()); }

  void after_optimizer_step() override {
    if (shards_) shards_->all_gather();
    masters_.write_back();
    buffers_->broadcast();  // what the forward passes made of them differs between ranks; rank 0's hold
  }

  void evaluation_step(EvaluationStage stage, const Batch& batch, std::int64_t batch_idx) override {
    local_evaluation_step(*module_, stage, batch, batch_idx, *context_);
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) override {
    return local_predict_step(*module_, batch, batch_idx, *context_);
  }

  std::string describe() const override { return communicator_->description(); }

  void teardown() override {
    masters_.forget_gradients();
    batch_norm_.reset();
    buffers_.reset();
    reducer_.reset();
    shards_.reset();
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

  /// Of what is trained from the start. What is frozen now, every rank will update by itself once a hook
  /// unfreezes it: until then nobody has to fetch it.
  std::vector<NamedTensor> divisible() const {
    std::vector<NamedTensor> result;
    for (const NamedTensor& master : masters_.parameters()) {
      if (master.tensor.requires_grad()) result.push_back(master);
    }
    return result;
  }

  void divide_update() {
    shards_ = OptimizerShards::divide(divisible(), *communicator_, context_->world);
    if (shards_ == nullptr) return;
    auto shard = shards_->mine().begin();
    for (const auto& [name, tensor] : masters_.parameters()) {
      ranges_.push_back(tensor.requires_grad() ? *shard++ : ElementRange{0, tensor.numel()});
    }
  }

  void warn_of_whole_updates() const {
    const std::string obstacle = OptimizerShards::obstacle(divisible());
    log_warning("ddp.shard_optimizer is on, but every rank will update all parameters: " +
                (obstacle.empty() ? "there are no ranks on this node that share memory with it" : obstacle));
  }

  Trainable* module_ = nullptr;
  const StrategyContext* context_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
  std::optional<TensorSync> buffers_;
  std::optional<SyncBatchNorm> batch_norm_;
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Reducer> reducer_;
  MasterWeights masters_;
  std::unique_ptr<OptimizerShards> shards_;  ///< null: every rank updates everything
  std::vector<ElementRange> ranges_;         ///< what this rank updates of each parameter; empty: everything
};

}  // namespace

std::unique_ptr<Strategy> make_ddp_strategy() { return std::make_unique<DdpStrategy>(); }

}  // namespace cxtrain
