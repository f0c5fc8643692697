#include "ddp_strategy.h"

#include <algorithm>
#include <sstream>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/sync_batch_norm.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/divided_parameters.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/strategy/whole_parameters.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {
namespace {

/// Whether dividing the update saves more than fetching the other ranks' shards costs, within a node: where
/// the optimizer keeps state, and the model is large enough that one more meeting of the ranks does not
/// count. An update by Adam touches an element seven times, by SGD with momentum five, without three; the
/// exchange touches it twice, once of these in another core's cache (benchmarks/RESULTS.md).
bool division_pays(const OptimizerConfig& optimizer, const std::vector<NamedTensor>& parameters) {
  constexpr std::size_t kSmallest = std::size_t{256} << 10;
  const auto* sgd = std::get_if<Sgd>(&optimizer);
  if (sgd != nullptr && sgd->momentum == 0) return false;
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : parameters) bytes += tensor.nbytes();
  return bytes >= kSmallest;
}

std::optional<at::ScalarType> wire_dtype(CommHook hook) {
  if (hook == CommHook::none) return std::nullopt;
  return hook == CommHook::bf16 ? at::kBFloat16 : at::kHalf;
}

class DdpStrategy final : public LocalStrategy {
 public:
  explicit DdpStrategy(const DdpArgs& args) : args_(args) {}

  void place(Trainable& module, const StrategyContext& context) override {
    LocalStrategy::place(module, context);
    parameters_ = trainable_parameters(module);
  }

  void connect() override {
    const std::vector<NamedTensor> all = module_->all_parameters();
    verify_same_parameters(all, context_->world);
    communicator_ = make_communicator(context_->world, context_->devices, context_->accelerator);
    TensorSync::broadcast_once(all, *communicator_);
    buffers_.emplace(module_->all_buffers(), *communicator_);
    buffers_->broadcast();
    if (context_->plan.sync_batchnorm && context_->world.size() > 1) batch_norm_.emplace(*communicator_);
    make_reducer();
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }
  std::unique_ptr<TrainedParameters> prepare(const OptimizerConfig& optimizer) override {
    WholeParameters::Steps steps{.complete_gradients = [this] { reducer_->finish(); }};
    if (args_.broadcast_buffers) steps.bring_buffers = [this] { buffers_->broadcast(); };
    Communicator* const group = who_divides(optimizer);
    if (group == nullptr)
      return std::make_unique<WholeParameters>(parameters_, context_->precision, std::move(steps));
    log_info("optimizer: " + std::to_string(group->size()) + " ranks divide its work");
    return std::make_unique<DividedParameters>(parameters_, context_->precision, *group, std::move(steps));
  }

  at::Tensor training_step(const MicroStep& step) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    if (step.first && reducer_->outdated()) make_reducer();
    reducer_->begin_backward(step.last);
    return local_training_step(*module_, step, *context_, [this] { reducer_->zero_gradients(); });
  }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    LocalStrategy::forward(batch, batch_idx);
  }

  void agree_on_buffers() override { buffers_->broadcast(); }

  /// The order of the gradients in the buckets, and the buffers where each rank has its own.
  void save(StateDict& state) const override {
    if (has_own_buffers()) {
      // Copies: a checkpoint has what lies in the model's memory from one rank only.
      for (const NamedTensor& buffer : module_->all_buffers())
        state.make_section("buffers").set(buffer.name, buffer.tensor.clone());
    }
    std::string order;
    for (const std::string& name : reducer_->order()) order += name + '\n';
    state.set("bucket_order", order);
  }
  void load(const StateDict& state) override {
    if (has_own_buffers() && state.has_section("buffers"))
      fill_pieces(whole_pieces(module_->all_buffers()), state.section("buffers").pieces());
    if (!state.has("bucket_order")) return;  // of another strategy
    std::istringstream saved(state.text("bucket_order"));
    std::vector<std::string> order;
    for (std::string name; std::getline(saved, name);) order.push_back(name);
    if (!order.empty()) reducer_->set_order(order);
  }
  bool differs_between_ranks() const override { return has_own_buffers(); }
  std::string describe() const override { return communicator_->description(); }

  void teardown() override {
    batch_norm_.reset();
    buffers_.reset();
    reducer_.reset();
    group_.reset();
    communicator_.reset();
  }

 private:
  bool has_own_buffers() const { return !args_.broadcast_buffers && context_->world.size() > 1; }
  /// For the parameters that require a gradient now. Collective.
  void make_reducer() {
    reducer_.reset();  // its hooks and memory before the next one's
    // On several devices autograd has several threads, which would send buckets and statistics in any order.
    const bool ordered = !batch_norm_ || context_->devices.size() == 1;
    reducer_ = std::make_unique<Reducer>(
        parameters_, *communicator_, context_->world,
        ReducerOptions{.first_bucket_bytes = args_.first_bucket_bytes,
                       .bucket_bytes = args_.bucket_bytes,
                       .overlap = ordered && args_.overlap.value_or(communicator_->overlaps()),
                       .find_unused_parameters = args_.find_unused_parameters,
                       .wire_dtype = wire_dtype(args_.comm_hook)});
  }

  /// The ranks that this one divides the optimizer's work with: those of its node, or, where it is alone
  /// there, and this was asked for, all. Null: every rank does everything. Collective.
  Communicator* who_divides(const OptimizerConfig& optimizer) {
    World& world = context_->world;
    const std::optional<bool> wish = args_.shard_optimizer;
    const std::vector<std::string> names = DividedParameters::divisible(parameters_);
    const bool whole_updates = world.size() == 1 || std::holds_alternative<LibTorchOptimizer>(optimizer);
    std::string own;
    if (!whole_updates &&
        wish.value_or(communicator_->node_memory() != nullptr && world.facts().max_local_size > 1 &&
                      division_pays(optimizer, parameters_))) {
      for (const std::string& name : names) own += name + "\n";
    }
    if (same_on_all_ranks(world, own) && !own.empty()) {
      if (group_ == nullptr) {
        const bool nodes = world.facts().max_local_size > 1;
        group_ = communicator_->split(nodes ? world.facts().node : 0, world.rank());
      }
      return group_.get();
    }
    if (wish.value_or(false)) {
      log_warning(std::string("strategy.shard_optimizer is on, but every rank will update all parameters: ") +
                  (world.size() == 1 ? "there is one rank"
                   : whole_updates   ? "LibTorch's own optimizers update whole parameters"
                                     : "some lie in memory that belongs to other tensors as well"));
    }
    return nullptr;
  }

  const DdpArgs args_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Communicator> group_;  ///< `who_divides`; null as long as nobody does
  std::optional<TensorSync> buffers_;
  std::optional<SyncBatchNorm> batch_norm_;
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace

std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args) {
  return std::make_unique<DdpStrategy>(args);
}

}  // namespace cxtrain
