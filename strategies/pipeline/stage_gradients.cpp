#include "stage_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

namespace cxtrain {

StageGradients::StageGradients(std::vector<NamedTensor> parameters, StageModel& model,
                               const StagePeers& peers)
    : parameters_(std::move(parameters)), model_(model), peers_(peers) {
  if (peers_.stage.size() == 1) return;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto of_dtype = [&](const Arena& arena) {
      return parameters_[arena.parameters.front()].tensor.scalar_type() ==
             parameters_[i].tensor.scalar_type();
    };
    auto arena = std::find_if(arenas_.begin(), arenas_.end(), of_dtype);
    if (arena == arenas_.end()) arena = arenas_.emplace(arenas_.end());
    arena->parameters.push_back(i);
  }
  for (Arena& arena : arenas_) {
    std::int64_t numel = 0;
    for (const std::size_t i : arena.parameters) numel += parameters_[i].tensor.numel();
    const at::Tensor& first = parameters_[arena.parameters.front()].tensor;
    arena.memory = peers_.stage.allocate(numel, first.scalar_type(), first.device());
  }
}

/// Autograd then hands over its tensors, instead of adding to zeros.
void StageGradients::zero_gradients() {
  for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
  complete_ = false;
}

void StageGradients::complete() {
  if (std::exchange(complete_, true)) return;
  const at::NoGradGuard no_grad;
  if (peers_.stage.size() > 1) average();
  add_tied();
}

/// Every stage that shares a parameter adds the gradients in the order of the stages, and so gets equal bits.
void StageGradients::add_tied() {
  for (std::size_t i = 0; i < model_.tied().size(); ++i) {
    const StageModel::Tied& tied = model_.tied()[i];
    const auto found = std::ranges::find(parameters_, tied.name, &NamedTensor::name);
    if (found == parameters_.end()) continue;
    const int tag = peers_.tag + static_cast<int>(i);
    const int own_stage = peers_.grid.stage();
    at::Tensor& gradient = found->tensor.mutable_grad();
    const std::array own{gradient};
    for (const int stage : tied.stages) {
      if (stage != own_stage) peers_.messages->send(own, peers_.grid.rank_of(stage), tag);
    }
    at::Tensor sum;
    for (const int stage : tied.stages) {
      const at::Tensor part =
          stage == own_stage ? own[0] : peers_.messages->receive(peers_.grid.rank_of(stage), tag).front();
      if (!part.defined()) continue;
      const at::Tensor here = part.to(found->tensor.device());
      sum = sum.defined() ? sum.add(here) : here;
    }
    // Clipping changes the gradient, and other stages may still receive this stage's own tensor.
    gradient = sum.defined() && sum.is_same(own[0]) ? sum.clone() : sum;
  }
}

/// A parameter that no rank used has no gradient; one that some ranks did not use counts as zero there.
void StageGradients::average() {
  Communicator& ranks = peers_.stage;
  const auto count = static_cast<std::int64_t>(parameters_.size());
  const at::Tensor used = at::zeros({count}, at::kInt);
  std::int32_t* const flags = used.mutable_data_ptr<std::int32_t>();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    flags[i] = parameters_[i].tensor.grad().defined() ? 1 : 0;
  // Flags travel as the gradients do.
  const at::Tensor anywhere = parameters_.empty() ? used : used.to(parameters_.front().tensor.device());
  if (count > 0) ranks.all_reduce(anywhere, ReduceOp::max);
  ranks.join();
  used.copy_(anywhere);

  for (const Arena& arena : arenas_) {
    std::int64_t begin = 0;
    for (const std::size_t i : arena.parameters) {
      if (flags[i] == 0) continue;
      const at::Tensor& parameter = parameters_[i].tensor;
      at::Tensor& gradient = parameter.mutable_grad();
      const at::Tensor place = arena.memory.as_strided(parameter.sizes(), parameter.strides(), begin);
      if (gradient.defined()) {
        place.copy_(gradient);
      } else {
        place.zero_();
      }
      gradient = place;
      begin += parameter.numel();
    }
    if (begin > 0) ranks.all_reduce(arena.memory.narrow(0, 0, begin), ReduceOp::avg);
  }
  ranks.join();
}

}  // namespace cxtrain
