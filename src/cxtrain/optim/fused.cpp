#include "cxtrain/optim/fused.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
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

}  // namespace

FusedOptimizer::FusedOptimizer(Rule rule, std::vector<ResolvedGroup> groups) : rule_(rule) {
  const at::NoGradGuard no_grad;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    base_rates_.push_back(groups[g].lr);
    const std::size_t first_of_group = shards_.size();
    for (const NamedTensor& parameter : groups[g].parameters) {
      const auto same =
          std::find_if(shards_.begin() + static_cast<std::ptrdiff_t>(first_of_group), shards_.end(),
                       [&](const Shard& shard) {
                         return shard.parameters[0].scalar_type() == parameter.tensor.scalar_type() &&
                                shard.parameters[0].device() == parameter.tensor.device();
                       });
      Shard& shard = same != shards_.end() ? *same : shards_.emplace_back();
      shard.group = g;
      shard.lr = groups[g].lr;
      shard.weight_decay = groups[g].weight_decay;
      shard.names.push_back(parameter.name);
      shard.parameters.push_back(parameter.tensor);
    }
  }
  for (Shard& shard : shards_) {
    std::visit(
        [&](const auto& r) {
          using R = std::decay_t<decltype(r)>;
          if constexpr (kHasMoments<R>) {
            shard.first = zeros_like_each(shard.parameters);
            shard.second = zeros_like_each(shard.parameters);
            if (r.amsgrad) shard.largest = zeros_like_each(shard.parameters);
          } else if (r.momentum != 0) {
            shard.first = zeros_like_each(shard.parameters);
          }
        },
        rule_);
    const auto count = static_cast<std::int64_t>(shard.parameters.size());
    shard.steps = at::zeros({count}, shard.parameters[0].options().dtype(at::kFloat).requires_grad(false));
    shard.step_of = shard.steps.unbind();
    shard.started.assign(shard.parameters.size(), 0);
  }
}

void FusedOptimizer::select(Shard& shard) {
  Selection& s = selection_;
  for (auto* list : {&s.parameters, &s.gradients, &s.first, &s.second, &s.largest, &s.step_of}) list->clear();
  for (std::size_t i = 0; i < shard.parameters.size(); ++i) {
    const at::Tensor& gradient = shard.parameters[i].grad();
    if (!gradient.defined()) continue;
    s.parameters.push_back(shard.parameters[i]);
    s.gradients.push_back(gradient);
    if (!shard.first.empty()) s.first.push_back(shard.first[i]);
    if (!shard.second.empty()) s.second.push_back(shard.second[i]);
    if (!shard.largest.empty()) s.largest.push_back(shard.largest[i]);
    s.step_of.push_back(shard.step_of[i]);
  }
}

void FusedOptimizer::step(const StepInputs& inputs) {
  const at::NoGradGuard no_grad;
  for (Shard& shard : shards_) {
    select(shard);
    if (selection_.parameters.empty()) continue;
    std::optional<at::Tensor> found_inf;
    if (inputs.found_inf != nullptr) found_inf = inputs.found_inf->to(shard.steps.device(), at::kFloat);
    // The kernels read the count that includes this step; a skipped step takes it back.
    const bool all = selection_.parameters.size() == shard.parameters.size();
    const auto count = [&](auto&& change) {
      if (all) return static_cast<void>(change(shard.steps));
      for (at::Tensor& step : selection_.step_of) change(step);
    };
    count([](at::Tensor& step) { step.add_(1); });
    std::visit([&](const auto& rule) { update(rule, shard, shard.lr * lr_factor_, found_inf); }, rule_);
    if (found_inf) count([&](at::Tensor& step) { step.sub_(*found_inf); });
  }
  selection_.gradients
      .clear();  // or they would outlive zero_gradients, and the next backward need memory of its own
}

void FusedOptimizer::update(const Sgd& rule, Shard& shard, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  if (fused_sgd_is_broken(s.parameters[0])) {
    if (found_inf && found_inf->item<float>() != 0) return;
    if (rule.momentum != 0 && rule.dampening != 0) {
      throw ConfigError("optimizer.dampening", "is not available for 16-bit parameters on the CPU", "use 0");
    }
    return foreach_sgd_step(s.parameters, s.gradients, s.first, rule, shard.weight_decay, lr);
  }
  if (rule.momentum == 0 || rule.dampening == 0) {
    // A buffer of zeros takes the first gradient as it is, so no step is a special first one.
    at::_fused_sgd_(s.parameters, s.gradients, s.first, shard.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false, /*is_first_step=*/false, {}, found_inf);
    return;
  }
  // With dampening the first gradient must enter undamped: parameter by parameter, as they start.
  if (found_inf && found_inf->item<float>() != 0) return;
  for (std::size_t i = 0, j = 0; i < shard.parameters.size(); ++i) {
    if (!shard.parameters[i].grad().defined()) continue;
    at::_fused_sgd_(at::TensorList(s.parameters[j]), at::TensorList(s.gradients[j]),
                    at::TensorList(s.first[j]), shard.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false,
                    /*is_first_step=*/shard.started[i] == 0, {}, {});
    shard.started[i] = 1;
    ++j;
  }
}

void FusedOptimizer::update(const Adam& rule, Shard& shard, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adam_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                   rule.beta2, shard.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {}, found_inf);
}

void FusedOptimizer::update(const AdamW& rule, Shard& shard, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adamw_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                    rule.beta2, shard.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {},
                    found_inf);
}

std::vector<double> FusedOptimizer::learning_rates() const {
  std::vector<double> rates;
  for (const double rate : base_rates_) rates.push_back(rate * lr_factor_);
  return rates;
}

std::vector<NamedTensor> FusedOptimizer::state() const {
  const bool moments = !std::holds_alternative<Sgd>(rule_);
  std::vector<NamedTensor> all;
  for (const Shard& shard : shards_) {
    for (std::size_t i = 0; i < shard.names.size(); ++i) {
      const std::string& name = shard.names[i];
      if (!shard.first.empty())
        all.push_back({(moments ? "exp_avg." : "momentum_buffer.") + name, shard.first[i]});
      if (!shard.second.empty()) all.push_back({"exp_avg_sq." + name, shard.second[i]});
      if (!shard.largest.empty()) all.push_back({"max_exp_avg_sq." + name, shard.largest[i]});
      all.push_back({"step." + name, shard.step_of[i]});
    }
  }
  return all;
}

}  // namespace cxtrain
