#include "floor/floor_adam.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

FloorAdam::FloorAdam(std::vector<Group> groups, double lr, double beta2, bool decoupled)
    : groups_(std::move(groups)), lr_(lr), beta2_(beta2), decoupled_(decoupled) {
  const at::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    State& state = states_.emplace_back();
    for (const at::Tensor& parameter : group.parameters) {
      state.first.push_back(at::zeros_like(parameter));
      state.second.push_back(at::zeros_like(parameter));
    }
    const at::TensorOptions options = at::TensorOptions(group.parameters.at(0).device()).dtype(at::kFloat);
    state.steps = at::zeros({static_cast<std::int64_t>(group.parameters.size())}, options);
    state.step_of = state.steps.unbind();
  }
}

void FloorAdam::zero_grad() {
  for (Group& group : groups_) {
    for (at::Tensor& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

void FloorAdam::step() {
  const at::NoGradGuard no_grad;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    State& state = states_[g];
    state.gradients.clear();
    for (const at::Tensor& parameter : group.parameters) state.gradients.push_back(parameter.grad());
    state.steps.add_(1);
    if (decoupled_) {
      at::_fused_adamw_(group.parameters, state.gradients, state.first, state.second, {}, state.step_of, lr_,
                        0.9, beta2_, group.weight_decay, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    } else {
      at::_fused_adam_(group.parameters, state.gradients, state.first, state.second, {}, state.step_of, lr_,
                       0.9, beta2_, group.weight_decay, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
    }
    state.gradients.clear();  // so that the next backward reuses their memory
  }
}
