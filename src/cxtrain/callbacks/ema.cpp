#include "cxtrain/callbacks/ema.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty_like.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/config/fields.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/optim/optimizer_ref.h"
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
  values_.clear();
  averages_.clear();  // an earlier fit has made its averages the model
  updates_ = 0;
  run_ = &run;
  if (stage == Stage::fit && run.plan().replicas > 1) {
    throw ConfigError("callbacks.ema",
                      "averages one copy of the parameters, and with --strategy " + run.plan().strategy +
                          " a rank keeps several",
                      "use --strategy ddp, or leave callbacks.ema out", MessageCode::conflicting_options);
  }
  if (stage == Stage::fit && run.strategy() != nullptr && run.strategy()->ranks_update_apart()) {
    throw ConfigError("callbacks.ema", "averages one model, and nodes update theirs apart",
                      "leave strategy.model_averaging_period or callbacks.ema out",
                      MessageCode::conflicting_options);
  }
}

Ema::Ema(const Args& args) : args_(args) { require_fields(args_); }

void Ema::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t step = run.global_step();
  if (run.progress().stepped && step >= args_.start_step && step % args_.every_n_steps == 0) update();
}

std::vector<at::Tensor> Ema::values() const {
  return values_of(run_->progress().optimizers->pieces_in_model());
}

void Ema::update() {
  const at::NoGradGuard no_grad;
  ++updates_;
  if (run_ == nullptr || pieces().empty()) return;  // other ranks update all there is
  if (values_.empty()) values_ = values();
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
  for (const Piece& piece : pieces())
    averages_.push_back(at::empty_like(
        piece.values, piece.values.options().dtype(average_dtype(piece.values)).requires_grad(false)));
}

void Ema::write(const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> targets = values_of(pieces());
  if (!targets.empty()) at::_foreach_copy_(targets, values);
}

void Ema::replace_by(const std::vector<at::Tensor>& values) {
  OptimizerList& optimizers = *run_->progress().optimizers;
  optimizers.begin_update();
  write(values);
  optimizers.publish();
}

void Ema::swap_in() {
  if (updates_ == 0 || swapped_) return;
  const at::NoGradGuard no_grad;
  OptimizerList& optimizers = *run_->progress().optimizers;
  optimizers.begin_update();
  for (const Piece& piece : pieces()) own_.push_back(piece.values.detach().clone());
  write(averages_);
  optimizers.publish();
  swapped_ = true;
}

void Ema::swap_out() {
  if (!std::exchange(swapped_, false)) return;
  replace_by(own_);
  own_.clear();
}

void Ema::on_train_end(Run& run) {
  swap_out();
  if (updates_ == 0) return;
  replace_by(averages_);
  if (run.rank() == 0)
    log_info("the parameters are the averages of " + std::to_string(updates_) + " updates");
}

/// Other ranks may be anywhere: this rank brings back what it has.
void Ema::on_exception(Run&, const std::exception&) {
  try {
    if (std::exchange(swapped_, false)) write(own_);
    own_.clear();
  } catch (const std::exception&) {
    // The device has failed, and the run ends with its error.
  }
}

std::vector<Piece> Ema::named_averages() const {
  std::vector<Piece> named = pieces();
  for (std::size_t i = 0; i < named.size(); ++i) named[i].values = averages_[i];
  return named;
}

void Ema::on_save_checkpoint(StateDict& state) {
  swap_out();  // a signal ends the run during a validation
  state.set("updates", updates_);
  if (!averages_.empty()) state.make_section("averages").add(named_averages());
}

void Ema::on_load_checkpoint(const StateDict& state) {
  updates_ = state.integer("updates");
  averages_.clear();
  if (updates_ == 0 || pieces().empty()) return;
  make_averages();
  fill_pieces(named_averages(), state.section("averages").pieces());
}

}  // namespace cxtrain
