#include "stage_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <unordered_map>

#include "cxtrain/base/error.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

/// The strides with memory: only tensors in row-major order become hollow.
std::vector<std::int64_t> strides_of(const at::Tensor& tensor) {
  if (!is_hollow(tensor)) return tensor.strides().vec();
  const auto strides = c10::contiguous_strides(tensor.sizes());
  return {strides.begin(), strides.end()};
}

/// Brings the values of the rank `from` to all ranks. The buffer's memory may have gaps.
void broadcast_buffer(const at::Tensor& buffer, Communicator& ranks, int from) {
  const at::NoGradGuard no_grad;
  const bool dense = buffer.is_non_overlapping_and_dense();
  const at::Tensor values = dense ? buffer : buffer.contiguous();
  ranks.broadcast(values, from);
  if (dense) return;
  ranks.join();
  buffer.copy_(values);
}

}  // namespace

Blocks& blocks_of_chain(Trainable& module) {
  if (module.chain() == nullptr)
    throw ConfigError("trainer.strategy",
                      "pipeline needs a model that is a chain of blocks, and this one is none",
                      "derive the model from cxtrain::ChainModule, or use --strategy zero",
                      MessageCode::conflicting_options);
  return *module.blocks();
}

std::vector<BlockRange> parts_of_chain(const Blocks& chain, const PipelineArgs& args, int stages) {
  const std::size_t blocks = chain.size();
  const std::size_t parts = static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks_of(args));
  if (!args.layout.empty()) {
    std::size_t sum = 0;
    for (const std::int64_t size : args.layout) sum += static_cast<std::size_t>(size);
    if (args.layout.size() != parts || sum != blocks)
      throw ConfigError(
          "strategy.layout",
          "has " + std::to_string(args.layout.size()) + " parts of " + std::to_string(sum) + " blocks, and " +
              std::to_string(parts) + " parts of " + std::to_string(blocks) + " blocks are needed",
          "leave the option out, and blocks are divided by their cost", MessageCode::conflicting_options);
    return cut_by_sizes(args.layout);
  }
  if (parts > blocks)
    throw ConfigError(
        "strategy.stages",
        std::to_string(parts) + " parts cannot be made of a model of " + std::to_string(blocks) + " blocks",
        "use fewer stages: --strategy.stages " +
            std::to_string(blocks / static_cast<std::size_t>(chunks_of(args))),
        MessageCode::wrong_ranks);
  return cut_by_cost(chain, parts);
}

StageModel::StageModel(Trainable& module, const Blocks& chain, const PipelineGrid& grid,
                       std::span<const BlockRange> parts)
    : grid_(grid) {
  std::unordered_map<const at::TensorImpl*, std::set<int>> stages;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    for (std::size_t block = parts[k].begin; block < parts[k].end; ++block) {
      for (const auto& tensors : {chain.parameters_of(block), chain.buffers_of(block)}) {
        for (const at::Tensor& tensor : tensors)
          stages[tensor.unsafeGetTensorImpl()].insert(static_cast<int>(k) % grid.stages);
      }
    }
  }
  const auto add = [&](const NamedTensor& named, bool is_buffer) {
    const auto found = stages.find(named.tensor.unsafeGetTensorImpl());
    if (found == stages.end()) {
      throw ConfigError("model", "`" + named.name + "` belongs to no block of the chain",
                        "register it in a module that add_block gets", MessageCode::bad_model);
    }
    std::vector<int> of_entry(found->second.begin(), found->second.end());
    if (of_entry.size() > 1 && !is_buffer) tied_.push_back({named.name, of_entry});
    entries_.push_back({named, named.tensor.sizes().vec(), strides_of(named.tensor), std::move(of_entry),
                        is_buffer, !is_hollow(named.tensor)});
  };
  for (const NamedTensor& parameter : module.all_parameters()) add(parameter, /*is_buffer=*/false);
  for (const NamedTensor& buffer : module.all_buffers()) add(buffer, /*is_buffer=*/true);
  std::ranges::sort(entries_, {}, &Entry::name);
}

const StageModel::Entry& StageModel::entry(const std::string& name) const {
  return *std::ranges::lower_bound(entries_, name, {}, &Entry::name);
}

bool StageModel::is_own(const std::string& name) const {
  const std::vector<int>& stages = entry(name).stages;
  return std::ranges::find(stages, grid_.stage()) != stages.end();
}

void StageModel::release() {
  for (Entry& entry : entries_) {
    if (entry.is_buffer || is_own(entry.named.name)) continue;
    at::Tensor& tensor = entry.named.tensor;
    tensor.set_data(hollow(entry.sizes, tensor));
    tensor.mutable_grad().reset();
    entry.is_here = false;
  }
}

void StageModel::allocate(Entry& entry) {
  at::Tensor& tensor = entry.named.tensor;
  tensor.set_data(at::empty_strided(entry.sizes, entry.strides, tensor.options().requires_grad(false)));
  entry.is_here = true;
}

void StageModel::restore(const std::set<std::string>& names) {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    if (entry.is_buffer || !names.contains(entry.named.name)) continue;
    if (!entry.is_here) allocate(entry);
    column_->broadcast(entry.named.tensor.detach(), owner_in_column(entry));
  }
  column_->join();
}

void StageModel::restore_all() {
  std::set<std::string> names;
  for (const Entry& entry : entries_) names.insert(entry.named.name);
  restore(names);
}

void StageModel::visit(const std::function<void(const NamedTensor&)>& visit) {
  const at::NoGradGuard no_grad;
  for (const Entry& entry : entries_) {
    const at::Tensor& tensor = entry.named.tensor;
    // One tensor at a time: the model may be larger than the memory of a rank.
    const at::Tensor whole =
        entry.is_here ? tensor.detach()
                      : at::empty_strided(entry.sizes, entry.strides, tensor.options().requires_grad(false));
    if (!entry.is_buffer) {
      column_->broadcast(whole, owner_in_column(entry));
      column_->join();
    }
    visit({entry.named.name, whole});
  }
}

void StageModel::complete_buffers() {
  for (const Entry& entry : entries_) {
    if (entry.is_buffer) broadcast_buffer(entry.named.tensor, *column_, owner_in_column(entry));
  }
  column_->join();
}

void StageModel::bring_buffers() {
  for (const Entry& entry : entries_) {
    // The first rank of a stage has column 0.
    if (entry.is_buffer)
      broadcast_buffer(entry.named.tensor, *world_, owner_in_column(entry) * grid_.columns());
  }
  world_->join();
}

}  // namespace cxtrain
