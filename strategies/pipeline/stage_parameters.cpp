#include "stage_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/reduce_kernels.h"

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
    auto arena = std::ranges::find_if(arenas_, of_dtype);
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

StageParameters::StageParameters(const std::vector<NamedTensor>& all, std::unique_ptr<TrainedParameters> own,
                                 const StageModel& model, Communicator& column, const bool& in_step)
    : own_(std::move(own)), column_(column), in_step_(in_step) {
  for (const NamedTensor& parameter : all) {
    parameters_.push_back({parameter.name, parameter.tensor.scalar_type(), model.is_own(parameter.name),
                           model.is_first_owner(parameter.name)});
    device_ = parameter.tensor.device();
  }
}

/// Each norm has one stage that counts it, so that the sum over the stages is exact.
std::vector<at::Tensor> StageParameters::gradient_norms(double order) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> own = own_->gradient_norms(order);
  const auto count = static_cast<std::int64_t>(parameters_.size());
  // Row 0: whether there is a norm. Row 1: the norm.
  const at::Tensor found = at::zeros({2, count}, at::TensorOptions().dtype(at::kDouble).device(device_));
  std::size_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Parameter& parameter = parameters_[static_cast<std::size_t>(i)];
    if (!parameter.is_own) continue;
    const at::Tensor& norm = own[next++];
    if (!norm.defined() || !parameter.counts) continue;
    found[0][i] = 1;
    found[1][i] = norm;
  }
  column_.all_reduce(found, ReduceOp::sum);
  column_.join();
  const at::Tensor known = found[0].cpu();
  std::vector<at::Tensor> norms(parameters_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    if (known[i].item<double>() == 0) continue;
    const bool is_double = parameters_[static_cast<std::size_t>(i)].dtype == at::kDouble;
    norms[static_cast<std::size_t>(i)] = found[1][i].to(is_double ? at::kDouble : at::kFloat);
  }
  return norms;
}

void StageParameters::agree_on_overflow(const at::Tensor& found) {
  own_->agree_on_overflow(found);
  column_.all_reduce(found, ReduceOp::max);
  column_.join();
}

void StageParameters::begin_update() {
  if (in_step_)
    throw TrainingError(
        "parameters change in the middle of a step (a callback averages them for a validation), when stages "
        "of a pipeline are at different micro-batches; make val_check_interval a multiple of "
        "accumulate_grad_batches");
  own_->begin_update();
}

}  // namespace cxtrain
