#include "cxtrain/optim/fused.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/foreach_sgd.h"

namespace cxtrain {
namespace {

template <class Rule>
constexpr bool kHasMoments = std::is_same_v<Rule, Adam> || std::is_same_v<Rule, AdamW>;

std::vector<at::Tensor> zeros_like_each(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> zeros;
  for (const at::Tensor& tensor : tensors) zeros.push_back(at::zeros_like(tensor));
  return zeros;
}

/// Elements of a dense tensor, in the order in which they lie in memory.
at::Tensor flat_view(const at::Tensor& tensor, ElementRange range) {
  return tensor.detach().as_strided({range.size()}, {1}, tensor.storage_offset() + range.begin);
}

/// The part of a gradient that belongs to a shard of its parameter.
at::Tensor shard_of(const at::Tensor& gradient, const at::Tensor& parameter, ElementRange shard) {
  if (gradient.strides() == parameter.strides()) return flat_view(gradient, shard);
  return flat_view(at::empty_like(parameter).copy_(gradient), shard);
}

}  // namespace

FusedOptimizer::FusedOptimizer(Rule rule, std::vector<ResolvedGroup> groups) : rule_(rule) {
  const at::NoGradGuard no_grad;
  for (const ResolvedGroup& group : groups) {
    base_rates_.push_back(group.lr);
    const std::size_t first_of_group = kinds_.size();
    for (const ResolvedGroup::Parameter& parameter : group.parameters) {
      const bool whole = parameter.shard.size() == parameter.tensor.numel();
      if (!whole && parameter.shard.size() == 0) continue;
      Kind& kind = kind_of(parameter.tensor, group, first_of_group);
      kind.names.push_back(parameter.name);
      kind.wholes.push_back(parameter.tensor);
      kind.shards.push_back(parameter.shard);
      kind.parameters.push_back(whole ? parameter.tensor : flat_view(parameter.tensor, parameter.shard));
    }
  }
  for (Kind& kind : kinds_) {
    if (!kind.frozen) make_state(kind);
  }
}

void FusedOptimizer::make_state(Kind& kind) {
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (kHasMoments<R>) {
          kind.first = zeros_like_each(kind.parameters);
          kind.second = zeros_like_each(kind.parameters);
          if (r.amsgrad) kind.largest = zeros_like_each(kind.parameters);
        } else if (r.momentum != 0) {
          kind.first = zeros_like_each(kind.parameters);
        }
      },
      rule_);
  const auto count = static_cast<std::int64_t>(kind.parameters.size());
  kind.steps = at::zeros({count}, kind.parameters[0].options().dtype(at::kFloat).requires_grad(false));
  kind.step_of = kind.steps.unbind();
  kind.started.assign(kind.parameters.size(), 0);
}

FusedOptimizer::Kind& FusedOptimizer::kind_of(const at::Tensor& parameter, const ResolvedGroup& group,
                                              std::size_t first_of_group) {
  const auto same = std::find_if(kinds_.begin() + static_cast<std::ptrdiff_t>(first_of_group), kinds_.end(),
                                 [&](const Kind& kind) {
                                   return kind.frozen != parameter.requires_grad() &&
                                          kind.parameters[0].scalar_type() == parameter.scalar_type() &&
                                          kind.parameters[0].device() == parameter.device();
                                 });
  if (same != kinds_.end()) return *same;
  Kind& made = kinds_.emplace_back();
  made.lr = group.lr;
  made.weight_decay = group.weight_decay;
  made.frozen = !parameter.requires_grad();
  return made;
}

void FusedOptimizer::select(Kind& kind) {
  Selection& s = selection_;
  for (auto* list : {&s.parameters, &s.gradients, &s.first, &s.second, &s.largest, &s.step_of}) list->clear();
  for (std::size_t i = 0; i < kind.parameters.size(); ++i) {
    const at::Tensor& whole = kind.wholes[i];
    const at::Tensor& gradient = whole.grad();
    if (!gradient.defined()) continue;
    s.parameters.push_back(kind.parameters[i]);
    s.gradients.push_back(whole.is_same(kind.parameters[i]) ? gradient
                                                            : shard_of(gradient, whole, kind.shards[i]));
    if (!kind.first.empty()) s.first.push_back(kind.first[i]);
    if (!kind.second.empty()) s.second.push_back(kind.second[i]);
    if (!kind.largest.empty()) s.largest.push_back(kind.largest[i]);
    s.step_of.push_back(kind.step_of[i]);
  }
}

void FusedOptimizer::step(const StepInputs& inputs) {
  const at::NoGradGuard no_grad;
  for (Kind& kind : kinds_) {
    if (!kind.steps.defined()) {
      const auto has_gradient = [](const at::Tensor& whole) { return whole.grad().defined(); };
      if (std::none_of(kind.wholes.begin(), kind.wholes.end(), has_gradient)) continue;
      make_state(kind);
    }
    select(kind);
    if (selection_.parameters.empty()) continue;
    std::optional<at::Tensor> found_inf;
    if (inputs.found_inf != nullptr) found_inf = inputs.found_inf->to(kind.steps.device(), at::kFloat);
    // The kernels read the count that includes this step; a skipped step takes it back.
    const bool all = selection_.parameters.size() == kind.parameters.size();
    const auto count = [&](auto&& change) {
      if (all) return static_cast<void>(change(kind.steps));
      for (at::Tensor& step : selection_.step_of) change(step);
    };
    count([](at::Tensor& step) { step.add_(1); });
    std::visit([&](const auto& rule) { update(rule, kind, kind.lr * lr_factor_, found_inf); }, rule_);
    if (found_inf) count([skipped = found_inf->reshape({})](at::Tensor& step) { step.sub_(skipped); });
  }
  selection_.gradients
      .clear();  // or they would outlive zero_gradients, and the next backward need memory of its own
}

void FusedOptimizer::update(const Sgd& rule, Kind& kind, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  if (fused_sgd_is_broken(s.parameters[0])) {
    if (found_inf && found_inf->item<float>() != 0) return;
    if (rule.momentum != 0 && rule.dampening != 0) {
      throw ConfigError("optimizer.dampening", "is not available for 16-bit parameters on the CPU", "use 0");
    }
    return foreach_sgd_step(s.parameters, s.gradients, s.first, rule, kind.weight_decay, lr);
  }
  if (rule.momentum == 0 || rule.dampening == 0) {
    // A buffer of zeros takes the first gradient as it is, so no step is a special first one.
    at::_fused_sgd_(s.parameters, s.gradients, s.first, kind.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false, /*is_first_step=*/false, {}, found_inf);
    return;
  }
  // With dampening the first gradient must enter undamped: parameter by parameter, as they start.
  if (found_inf && found_inf->item<float>() != 0) return;
  for (std::size_t i = 0, j = 0; i < kind.parameters.size(); ++i) {
    if (!kind.wholes[i].grad().defined()) continue;
    at::_fused_sgd_(at::TensorList(s.parameters[j]), at::TensorList(s.gradients[j]),
                    at::TensorList(s.first[j]), kind.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false,
                    /*is_first_step=*/kind.started[i] == 0, {}, {});
    kind.started[i] = 1;
    ++j;
  }
}

void FusedOptimizer::update(const Adam& rule, Kind& kind, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adam_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                   rule.beta2, kind.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {}, found_inf);
}

void FusedOptimizer::update(const AdamW& rule, Kind& kind, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adamw_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                    rule.beta2, kind.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {}, found_inf);
}

std::vector<double> FusedOptimizer::learning_rates() const {
  std::vector<double> rates;
  for (const double rate : base_rates_) rates.push_back(rate * lr_factor_);
  return rates;
}

std::vector<NamedTensor> FusedOptimizer::state() const {
  const bool moments = !std::holds_alternative<Sgd>(rule_);
  std::vector<NamedTensor> all;
  for (const Kind& kind : kinds_) {
    if (!kind.steps.defined()) continue;
    for (std::size_t i = 0; i < kind.names.size(); ++i) {
      const std::string& name = kind.names[i];
      if (!kind.first.empty())
        all.push_back({(moments ? "exp_avg." : "momentum_buffer.") + name, kind.first[i]});
      if (!kind.second.empty()) all.push_back({"exp_avg_sq." + name, kind.second[i]});
      if (!kind.largest.empty()) all.push_back({"max_exp_avg_sq." + name, kind.largest[i]});
      all.push_back({"step." + name, kind.step_of[i]});
    }
  }
  return all;
}

}  // namespace cxtrain
