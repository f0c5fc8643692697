#include "ddp_strategy.h"

#include <algorithm>
#include <sstream>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/node/node_memory.h"
#include "cxtrain/reduce/gather_over_ranks.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/sync_batch_norm.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/divided_parameters.h"
#include "cxtrain/strategy/local_step.h"
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

/// Gradients that a reducer averages over all ranks. A hook may freeze parameters or unfreeze them; the next
/// step then has a reducer of its own.
class DdpGradients final : public GradientExchange {
 public:
  /// `buffers`: brought to the ranks after each step; or null. All references outlive it. Collective.
  DdpGradients(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
               const ReducerOptions& options, TensorSync* buffers)
      : parameters_(std::move(parameters)),
        communicator_(communicator),
        world_(world),
        options_(options),
        buffers_(buffers) {
    make_reducer();
  }

  void zero_gradients() override {
    if (reducer_->outdated()) make_reducer();
    reducer_->zero_gradients();
  }
  void begin_backward(bool completes_step) override { reducer_->begin_backward(completes_step); }
  void end_backward() override { reducer_->end_backward(); }
  void complete() override { reducer_->finish(); }
  void bring_buffers() override {
    if (buffers_ != nullptr) buffers_->broadcast();
  }

  /// The order of the gradients in the buckets, a name a line.
  std::string order() const {
    std::string order;
    for (const std::string& name : reducer_->order()) order += name + '\n';
    return order;
  }
  void set_order(const std::string& lines) {
    std::istringstream saved(lines);
    std::vector<std::string> order;
    for (std::string name; std::getline(saved, name);) order.push_back(name);
    if (!order.empty()) reducer_->set_order(order);
  }

 private:
  /// For the parameters that require a gradient now. Collective.
  void make_reducer() {
    reducer_.reset();  // its hooks and memory before the next one's
    reducer_ = std::make_unique<Reducer>(parameters_, communicator_, world_, options_);
  }

  std::vector<NamedTensor> parameters_;
  Communicator& communicator_;
  World& world_;
  ReducerOptions options_;
  TensorSync* buffers_;
  std::unique_ptr<Reducer> reducer_;
};

class DdpStrategy final : public LocalStrategy {
 public:
  explicit DdpStrategy(const DdpArgs& args) : args_(args) {}

  void connect() override {
    const std::vector<NamedTensor> all = module_->all_parameters();
    verify_same_parameters(all, context_->world);
    communicator_ = make_communicator(context_->world, context_->devices, context_->accelerator);
    TensorSync::broadcast_once(all, *communicator_);
    buffers_.emplace(module_->all_buffers(), *communicator_);
    buffers_->broadcast();
    if (context_->plan.sync_batchnorm && context_->world.size() > 1) batch_norm_.emplace(*communicator_);
  }

  DataShard data_shard() const override { return {context_->world.rank(), context_->world.size()}; }

  void forward(const Batch& batch, std::int64_t batch_idx) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    LocalStrategy::forward(batch, batch_idx);
  }

  at::Tensor all_gather(const at::Tensor& own, bool gradients) override {
    if (gradients && context_->devices.size() > 1)
      throw TrainingError(
          "all_gather with gradients works with one device per rank: autograd of several "
          "devices has several threads, whose messages have no order");
    if (gradients && args_.find_unused_parameters)
      throw TrainingError(
          "all_gather with gradients works without find_unused_parameters: ranks with different unused "
          "parameters send their messages in different orders");
    return gather_over_ranks(own, context_->world, *communicator_, gradients);
  }
  void agree_on_buffers() override { buffers_->broadcast(); }

  /// The order of the gradients in the buckets, and the buffers where each rank has its own.
  void save(StateDict& state) const override {
    if (has_own_buffers()) {
      // Copies: a checkpoint has what lies in the model's memory from one rank only.
      for (const NamedTensor& buffer : module_->all_buffers())
        state.make_section("buffers").set(buffer.name, buffer.tensor.clone());
    }
    for (std::size_t i = 0; i < exchanges().size(); ++i) state.set(order_key(i), gradients(i).order());
  }
  void load(const StateDict& state) override {
    if (has_own_buffers() && state.has_section("buffers"))
      fill_pieces(whole_pieces(module_->all_buffers()), state.section("buffers").pieces());
    for (std::size_t i = 0; i < exchanges().size(); ++i) {
      // Another strategy saves no order.
      if (state.has(order_key(i))) gradients(i).set_order(state.text(order_key(i)));
    }
  }
  bool differs_between_ranks() const override { return has_own_buffers(); }
  std::string describe() const override { return communicator_->description(); }

  void teardown() override {
    batch_norm_.reset();
    buffers_.reset();
    release_exchanges();
    group_.reset();
    communicator_.reset();
  }

 private:
  StepOutput training_step(const MicroStep& step) override {
    std::optional<SyncBatchNorm::Scope> over_all_ranks;
    if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
    return LocalStrategy::training_step(step);
  }

  std::unique_ptr<GradientExchange> make_exchange(std::vector<NamedTensor> parameters) override {
    // On several devices autograd has several threads, which would send buckets and statistics in any order.
    const bool ordered = !batch_norm_ || context_->devices.size() == 1;
    return std::make_unique<DdpGradients>(
        std::move(parameters), *communicator_, context_->world,
        ReducerOptions{.first_bucket_bytes = args_.first_bucket_bytes,
                       .bucket_bytes = args_.bucket_bytes,
                       .overlap = ordered && args_.overlap.value_or(communicator_->overlaps()),
                       .find_unused_parameters = args_.find_unused_parameters,
                       .wire_dtype = wire_dtype(args_.comm_hook)},
        args_.broadcast_buffers ? &*buffers_ : nullptr);
  }

  std::unique_ptr<TrainedParameters> make_trained(const OptimizerTarget& target,
                                                  GradientExchange& exchange) override {
    Communicator* const group = who_divides(target);
    if (group == nullptr) return LocalStrategy::make_trained(target, exchange);
    auto divided =
        std::make_unique<DividedParameters>(target.parameters, context_->precision, *group, exchange);
    log_info("optimizer: " + std::to_string(group->size()) + " ranks divide its work" +
             (divided->one_copy() ? ", and have one copy of the parameters" : ""));
    return divided;
  }

  bool has_own_buffers() const { return !args_.broadcast_buffers && context_->world.size() > 1; }
  DdpGradients& gradients(std::size_t i) const { return static_cast<DdpGradients&>(*exchanges()[i]); }
  static std::string order_key(std::size_t exchange) {
    return exchange == 0 ? "bucket_order" : "bucket_order_" + std::to_string(exchange);
  }

  /// The ranks that this one divides the optimizer's work with: those of its node, or, where it is alone
  /// there, and this was asked for, all. Null: every rank does everything. Collective.
  Communicator* who_divides(const OptimizerTarget& target) {
    const OptimizerConfig& optimizer = target.optimizer;
    World& world = context_->world;
    const std::optional<bool> wish = args_.shard_optimizer;
    const std::vector<std::string> names = DividedParameters::divisible(target.parameters);
    const bool whole_updates = world.size() == 1 || std::holds_alternative<LibTorchOptimizer>(optimizer);
    std::string own;
    if (!whole_updates &&
        wish.value_or(communicator_->node_memory() != nullptr && world.facts().max_local_size > 1 &&
                      division_pays(optimizer, target.parameters))) {
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
};

}  // namespace

std::unique_ptr<Strategy> make_ddp_strategy(const DdpArgs& args) {
  return std::make_unique<DdpStrategy>(args);
}

}  // namespace cxtrain
