#include "cxtrain/callbacks/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty_like.h>
#include <torch/nn/module.h>

#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {
namespace {

/// Averages of 16 bits would lose updates, which are small.
at::ScalarType average_dtype(const at::Tensor& parameter) {
  const bool short_type = parameter.scalar_type() == at::kHalf || parameter.scalar_type() == at::kBFloat16;
  return short_type ? at::kFloat : parameter.scalar_type();
}

}  // namespace

void Ema::setup(Run& run, Stage stage) {
  const Strategy* const strategy = run.strategy();
  const bool divided = strategy != nullptr && !strategy->ranks_keep_whole_models();
  if (stage == Stage::fit && (divided || run.plan().replicas > 1)) {
    throw ConfigError("callbacks.ema",
                      "averages the parameters of each rank, and with --strategy " + run.plan().strategy +
                          " a rank does not keep one whole model",
                      "use --strategy ddp, or leave callbacks.ema out", MessageCode::conflicting_options);
  }
  parameters_ = run.module<Trainable>().all_parameters();
  values_.clear();
  averages_.clear();  // an earlier fit has made its averages the model
  last_step_ = updates_ = 0;
  for (const NamedTensor& parameter : parameters_) values_.push_back(parameter.tensor.detach());
}

void Ema::on_train_batch_start(Run&, const Batch&, std::int64_t) {
  swap_out();  // a validation that ended early, without its last hook
}

void Ema::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  // A batch takes no step while gradients accumulate, and several with several optimizers.
  const std::int64_t step = run.global_step(), before = std::exchange(last_step_, step);
  if (step >= args_.start_step && step / args_.every_n_steps != before / args_.every_n_steps) update();
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  ++updates_;
  if (values_.empty()) return;  // a model without parameters
  if (updates_ == 1) {
    make_averages();
    at::_foreach_copy_(averages_, values_);
    return;
  }
  at::_foreach_mul_(averages_, args_.decay);
  at::_foreach_add_(averages_, values_, 1 - args_.decay);
}

void Ema::make_averages() {
  averages_.clear();
  for (const at::Tensor& value : values_)
    averages_.push_back(at::empty_like(value, value.options().dtype(average_dtype(value))));
}

void Ema::swap_in() {
  if (averages_.empty() || !own_.empty()) return;
  const at::NoGradGuard no_grad;
  for (const at::Tensor& value : values_) own_.push_back(value.clone());
  at::_foreach_copy_(values_, averages_);
}

void Ema::swap_out() {
  if (own_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(values_, own_);
  own_.clear();
}

void Ema::on_validation_start(Run&) { swap_in(); }
void Ema::on_validation_end(Run&) { swap_out(); }

void Ema::on_train_end(Run& run) {
  swap_out();
  if (averages_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(values_, averages_);
  if (run.rank() == 0)
    log_info("the parameters are the averages of " + std::to_string(updates_) + " updates");
}

void Ema::on_exception(Run&, const std::exception&) {
  try {
    swap_out();
  } catch (const std::exception&) {
    // The device has failed, and the run ends with its error.
  }
}

std::vector<Piece> Ema::named_averages() const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < averages_.size(); ++i)
    pieces.push_back(whole_piece(parameters_[i].name, averages_[i]));
  return pieces;
}

void Ema::on_save_checkpoint(StateDict& state) {
  swap_out();  // a signal ends the run during a validation
  state.set("updates", updates_);
  state.set("last_step", last_step_);
  if (updates_ > 0) state.make_section("averages").add(named_averages());
}

void Ema::on_load_checkpoint(const StateDict& state) {
  updates_ = state.integer("updates");
  last_step_ = state.integer("last_step");
  averages_.clear();
  if (updates_ == 0) return;
  make_averages();
  fill_pieces(named_averages(), state.section("averages").pieces());
}

}  // namespace cxtrain
