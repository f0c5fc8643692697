#include "replicated_strategy.h"

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/reduce/gather_over_ranks.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {
namespace {

std::string order_key(std::size_t exchange) {
  return exchange == 0 ? "bucket_order" : "bucket_order_" + std::to_string(exchange);
}

std::string memory_key(std::size_t exchange) { return "exchange_" + std::to_string(exchange); }

}  // namespace

void ReplicatedStrategy::connect() {
  const std::vector<NamedTensor> all = module_->all_parameters();
  verify_same_parameters(all, context_->world);
  communicator_ = make_communicator(context_->world, context_->devices, context_->accelerator, args_.network);
  whole_at_start_ = broadcast_whole(all, *communicator_, context_->world);
  buffers_.emplace(module_->all_buffers(), *communicator_);
  buffers_->broadcast();
  if (context_->plan.sync_batchnorm && context_->world.size() > 1) batch_norm_.emplace(*communicator_);
}

DataShard ReplicatedStrategy::data_shard() const { return {context_->world.rank(), context_->world.size()}; }

void ReplicatedStrategy::forward(const Batch& batch, std::int64_t batch_idx) {
  std::optional<SyncBatchNorm::Scope> over_all_ranks;
  if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
  LocalStrategy::forward(batch, batch_idx);
}

StepOutput ReplicatedStrategy::training_step(const MicroStep& step) {
  std::optional<SyncBatchNorm::Scope> over_all_ranks;
  if (batch_norm_) over_all_ranks.emplace(*batch_norm_);
  return LocalStrategy::training_step(step);
}

at::Tensor ReplicatedStrategy::all_gather(const at::Tensor& own, bool gradients) {
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

void ReplicatedStrategy::save(StateDict& state) const {
  if (has_own_buffers()) {
    // Copies: a checkpoint has what lies in the model's memory from one rank only.
    for (const NamedTensor& buffer : module_->all_buffers())
      state.make_section("buffers").set(buffer.name, buffer.tensor.clone());
  }
  for (std::size_t i = 0; i < exchanges().size(); ++i) {
    state.set(order_key(i), exchanges()[i]->order());
    if (const Stateful* const memory = exchanges()[i]->memory())
      memory->save(state.make_section(memory_key(i)));
  }
}

void ReplicatedStrategy::load(const StateDict& state) {
  if (has_own_buffers() && state.has_section("buffers"))
    fill_pieces(whole_pieces(module_->all_buffers()), state.section("buffers").pieces());
  for (std::size_t i = 0; i < exchanges().size(); ++i) {
    // Another strategy saves no order.
    if (state.has(order_key(i))) exchanges()[i]->set_order(state.text(order_key(i)));
    Stateful* const memory = exchanges()[i]->memory();
    if (memory != nullptr && state.has_section(memory_key(i))) memory->load(state.section(memory_key(i)));
  }
}

bool ReplicatedStrategy::differs_between_ranks() const {
  for (const auto& exchange : exchanges()) {
    const Stateful* const memory = exchange->memory();
    if (memory != nullptr && memory->differs_between_ranks()) return true;
  }
  return has_own_buffers();
}

Communicator& ReplicatedStrategy::ranks_of_node() {
  if (node_ == nullptr) {
    World& world = context_->world;
    const bool several = world.facts().max_local_size > 1;
    node_ = communicator_->split(several ? world.facts().node : 0, world.rank());
  }
  return *node_;
}

void ReplicatedStrategy::teardown() {
  batch_norm_.reset();
  buffers_.reset();
  release_exchanges();
  node_.reset();
  communicator_.reset();
}

}  // namespace cxtrain
