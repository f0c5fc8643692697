#include "cxtrain/optim/fused.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

/// One SGD step by elementary operations on lists, for what the fused kernel cannot do: LibTorch 2.11's, on
/// the CPU, leaves bfloat16 and float16 parameters unchanged except in the last elements that fill no vector
/// register (tests/optim/optimizers_test.cpp shows it). `momentum`: one buffer per parameter, or none without
/// momentum; zeroed before its first step.
void foreach_sgd_step(at::TensorList parameters, at::TensorList gradients, at::TensorList momentum,
                      const Sgd& rule, double weight_decay, double lr) {
  std::vector<at::Tensor> updates(gradients.begin(), gradients.end());
  if (weight_decay != 0) updates = at::_foreach_add(gradients, parameters, weight_decay);
  if (!momentum.empty()) {
    at::_foreach_mul_(momentum, rule.momentum);
    at::_foreach_add_(momentum, updates, 1 - rule.dampening);
    if (rule.nesterov) {
      updates = at::_foreach_add(updates, momentum, rule.momentum);
    } else {
      updates.assign(momentum.begin(), momentum.end());
    }
  }
  at::_foreach_add_(parameters, updates, -lr);
}

/// Whether the fused kernel is wrong for these.
bool fused_sgd_is_broken(const at::Tensor& parameter) {
  return parameter.is_cpu() &&
         (parameter.scalar_type() == at::kHalf || parameter.scalar_type() == at::kBFloat16);
}

template <class Rule>
constexpr bool kHasMoments = std::is_same_v<Rule, Adam> || std::is_same_v<Rule, AdamW>;

/// Zeros like each piece, one after the other in one block of memory, which has more huge pages than a block
/// for each would have. The pieces have one dtype and device.
std::vector<at::Tensor> zeros_like_each(const std::vector<Piece>& pieces) {
  constexpr std::int64_t kAligned = kCacheLine;  // elements: a cache line or more in any dtype
  std::int64_t total = 0;
  for (const Piece& piece : pieces) total += round_up(piece.values.numel(), kAligned);
  const at::Tensor block = at::zeros({total}, pieces.front().values.options().requires_grad(false));
  std::vector<at::Tensor> zeros;
  std::int64_t first = 0;
  for (const Piece& piece : pieces) {
    zeros.push_back(slice_like(block, first, piece.values));
    first += round_up(piece.values.numel(), kAligned);
  }
  return zeros;
}

/// ATen raises the version counter of what an operation writes to, so that others notice: autograd, which
/// refuses a backward pass through values that are gone, and who keeps copies. The fused kernels return
/// nothing, and what does not return its output raises no counter.
void note_writes(at::TensorList written) {
  for (const at::Tensor& tensor : written) {
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
}

/// Adds 1 to each element of contiguous float32 tensors. A loop does so on the host: an operator takes longer
/// than the whole update of a small model.
void add_one(at::TensorList counts) {
  for (const at::Tensor& tensor : counts) {
    if (!tensor.is_cpu()) {
      tensor.add_(1);
      continue;
    }
    for (float& count : std::span(tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())))
      count += 1;
    note_writes(tensor);
  }
}

}  // namespace

FusedOptimizer::FusedOptimizer(Rule rule, const std::vector<ResolvedGroup>& groups,
                               std::span<const Piece> pieces)
    : rule_(rule) {
  const at::NoGradGuard no_grad;
  for (const ResolvedGroup& group : groups) {
    base_rates_.push_back(group.lr);
    const std::size_t first_of_group = bundles_.size();
    for (const std::size_t index : group.pieces) {
      Bundle& bundle = bundle_of(pieces[index], group, first_of_group);
      bundle.piece_indices.push_back(index);
      bundle.pieces.push_back(pieces[index]);
    }
  }
  for (Bundle& bundle : bundles_) {
    if (!bundle.frozen) make_state(bundle);
  }
}

void FusedOptimizer::make_state(Bundle& bundle) {
  std::visit(
      [&](const auto& r) {
        using R = std::decay_t<decltype(r)>;
        if constexpr (kHasMoments<R>) {
          bundle.first = zeros_like_each(bundle.pieces);
          bundle.second = zeros_like_each(bundle.pieces);
          if (r.amsgrad) bundle.largest = zeros_like_each(bundle.pieces);
        } else if (r.momentum != 0) {
          bundle.first = zeros_like_each(bundle.pieces);
        }
      },
      rule_);
  const auto count = static_cast<std::int64_t>(bundle.pieces.size());
  bundle.steps = at::zeros({count}, bundle.pieces[0].values.options().dtype(at::kFloat).requires_grad(false));
  bundle.step_of = bundle.steps.unbind();
  bundle.started.assign(bundle.pieces.size(), 0);
}

FusedOptimizer::Bundle& FusedOptimizer::bundle_of(const Piece& piece, const ResolvedGroup& group,
                                                  std::size_t first_of_group) {
  const at::Tensor& parameter = piece.values;
  // A frozen piece has a bundle of its own: its state is made with its own first gradient, alike on all ranks
  // that have parts of the parameter.
  const bool frozen = !parameter.requires_grad();
  const auto same = std::find_if(bundles_.begin() + static_cast<std::ptrdiff_t>(first_of_group),
                                 bundles_.end(), [&](const Bundle& bundle) {
                                   return !frozen && !bundle.frozen &&
                                          same_dtype_and_device(bundle.pieces[0].values, parameter);
                                 });
  if (same != bundles_.end()) return *same;
  Bundle& made = bundles_.emplace_back();
  made.lr = group.lr;
  made.weight_decay = group.weight_decay;
  made.frozen = frozen;
  return made;
}

void FusedOptimizer::select(const Bundle& bundle, std::span<const at::Tensor> gradients) {
  Selection& s = selection_;
  s.indices.clear();
  for (auto* list : {&s.parameters, &s.gradients, &s.first, &s.second, &s.largest, &s.step_of}) list->clear();
  for (std::size_t i = 0; i < bundle.pieces.size(); ++i) {
    const at::Tensor& gradient = gradients[bundle.piece_indices[i]];
    if (!gradient.defined()) continue;
    s.indices.push_back(i);
    s.parameters.push_back(bundle.pieces[i].values);
    s.gradients.push_back(laid_out_like(bundle.pieces[i].values, gradient));
    if (!bundle.first.empty()) s.first.push_back(bundle.first[i]);
    if (!bundle.second.empty()) s.second.push_back(bundle.second[i]);
    if (!bundle.largest.empty()) s.largest.push_back(bundle.largest[i]);
    s.step_of.push_back(bundle.step_of[i]);
  }
}

void FusedOptimizer::step(const StepInputs& inputs) {
  const at::NoGradGuard no_grad;
  for (Bundle& bundle : bundles_) {
    if (!bundle.steps.defined()) {
      const auto has_gradient = [&](std::size_t index) { return inputs.gradients[index].defined(); };
      if (std::ranges::none_of(bundle.piece_indices, has_gradient)) continue;
      make_state(bundle);
    }
    select(bundle, inputs.gradients);
    if (selection_.parameters.empty()) continue;
    std::optional<at::Tensor> found_inf;
    if (inputs.found_inf != nullptr) found_inf = inputs.found_inf->to(bundle.steps.device(), at::kFloat);
    // The kernels read the count that includes this step; a skipped step takes it back.
    const bool all = selection_.parameters.size() == bundle.pieces.size();
    const at::TensorList counts = all ? at::TensorList(bundle.steps) : at::TensorList(selection_.step_of);
    add_one(counts);
    std::visit([&](const auto& rule) { update(rule, bundle, bundle.lr * lr_factor_, found_inf); }, rule_);
    for (const auto* list :
         {&selection_.parameters, &selection_.first, &selection_.second, &selection_.largest})
      note_writes(*list);
    if (!found_inf) continue;
    const at::Tensor skipped = found_inf->reshape({});
    for (const at::Tensor& count : counts) count.sub_(skipped);
  }
  selection_.gradients
      .clear();  // or they would outlive zero_gradients, and the next backward need memory of its own
}

void FusedOptimizer::update(const Sgd& rule, Bundle& bundle, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  if (fused_sgd_is_broken(s.parameters[0])) {
    if (found_inf && found_inf->item<float>() != 0) return;
    if (rule.momentum != 0 && rule.dampening != 0) {
      throw ConfigError("optimizer.dampening", "is not available for 16-bit parameters on the CPU", "use 0",
                        MessageCode::conflicting_options);
    }
    return foreach_sgd_step(s.parameters, s.gradients, s.first, rule, bundle.weight_decay, lr);
  }
  if (rule.momentum == 0 || rule.dampening == 0) {
    // A buffer of zeros takes the first gradient as it is, so no step is a special first one.
    at::_fused_sgd_(s.parameters, s.gradients, s.first, bundle.weight_decay, rule.momentum, lr,
                    rule.dampening, rule.nesterov, /*maximize=*/false, /*is_first_step=*/false, {},
                    found_inf);
    return;
  }
  // With dampening the first gradient must enter undamped: parameter by parameter, as they start.
  if (found_inf && found_inf->item<float>() != 0) return;
  for (std::size_t j = 0; j < s.indices.size(); ++j) {
    char& started = bundle.started[s.indices[j]];
    at::_fused_sgd_(at::TensorList(s.parameters[j]), at::TensorList(s.gradients[j]),
                    at::TensorList(s.first[j]), bundle.weight_decay, rule.momentum, lr, rule.dampening,
                    rule.nesterov, /*maximize=*/false,
                    /*is_first_step=*/started == 0, {}, {});
    started = 1;
  }
}

void FusedOptimizer::update(const Adam& rule, Bundle& bundle, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adam_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                   rule.beta2, bundle.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {},
                   found_inf);
}

void FusedOptimizer::update(const AdamW& rule, Bundle& bundle, double lr,
                            const std::optional<at::Tensor>& found_inf) {
  Selection& s = selection_;
  at::_fused_adamw_(s.parameters, s.gradients, s.first, s.second, s.largest, s.step_of, lr, rule.beta1,
                    rule.beta2, bundle.weight_decay, rule.eps, rule.amsgrad, /*maximize=*/false, {},
                    found_inf);
}

std::vector<double> FusedOptimizer::learning_rates() const {
  return transformed(base_rates_, [this](double rate) { return rate * lr_factor_; });
}

std::vector<Piece> FusedOptimizer::state() const {
  const bool moments = !std::holds_alternative<Sgd>(rule_);
  std::vector<Piece> all;
  for (const Bundle& bundle : bundles_) {
    if (!bundle.steps.defined()) continue;
    for (std::size_t i = 0; i < bundle.pieces.size(); ++i) {
      const Piece& piece = bundle.pieces[i];
      if (!bundle.first.empty())
        all.push_back(piece_beside(piece, moments ? "exp_avg." : "momentum_buffer.", bundle.first[i]));
      if (!bundle.second.empty()) all.push_back(piece_beside(piece, "exp_avg_sq.", bundle.second[i]));
      if (!bundle.largest.empty()) all.push_back(piece_beside(piece, "max_exp_avg_sq.", bundle.largest[i]));
      all.push_back(whole_piece("step." + piece.name, bundle.step_of[i]));
    }
  }
  return all;
}

void FusedOptimizer::load(std::span<const Piece> state) {
  const at::NoGradGuard no_grad;
  std::set<std::string_view> found;
  for (const Piece& piece : state) found.insert(piece.name);
  const auto has_state = [&](const Piece& piece) { return found.contains("step." + piece.name); };
  for (Bundle& bundle : bundles_) {
    if (!bundle.steps.defined() && std::ranges::any_of(bundle.pieces, has_state)) make_state(bundle);
  }
  const std::vector<Piece> own = this->state();
  fill_pieces(own, state);
  std::set<std::string_view> known;
  for (const Piece& piece : own) known.insert(piece.name);
  for (const Bundle& bundle : bundles_) {
    for (const Piece& piece : bundle.pieces) {
      for (const char* prefix : {"exp_avg.", "momentum_buffer.", "exp_avg_sq.", "max_exp_avg_sq.", "step."}) {
        const std::string name = prefix + piece.name;
        if (!found.contains(name) || known.contains(name)) continue;
        throw StateError(
            "the saved state has " + name +
                ", which this optimizer does not keep: it was saved by another kind of optimizer",
            MessageCode::model_mismatch);
      }
    }
  }
  for (Bundle& bundle : bundles_) {
    for (std::size_t i = 0; i < bundle.step_of.size(); ++i)
      bundle.started[i] = bundle.step_of[i].item<float>() > 0 ? 1 : 0;
  }
}

}  // namespace cxtrain
