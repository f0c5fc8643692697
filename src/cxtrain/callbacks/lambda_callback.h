#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// A callback of functions, for a few lines that need no class: Lightning's LambdaCallback.
///
///     trainer.add_callback<cxtrain::LambdaCallback>({.on_train_epoch_end = [](cxtrain::Run& run) {
///       if (run.rank() == 0) cxtrain::log_info("epoch " + std::to_string(run.current_epoch()));
///     }});
class LambdaCallback final : public Callback {
 public:
  using Hook = std::function<void(Run&)>;
  /// The functions of the hooks of these names, in the order in which they run; empty: nothing runs.
  struct Args {
    Hook on_fit_start = {};
    Hook on_train_start = {};
    Hook on_train_epoch_start = {};
    std::function<void(Run&, const Batch&, std::int64_t batch_idx)> on_train_batch_start = {};
    std::function<void(Run&, OptimizerRef&)> on_before_optimizer_step = {};
    std::function<void(Run&, const StepOutput&, const Batch&, std::int64_t batch_idx)> on_train_batch_end =
        {};
    Hook on_validation_epoch_start = {};
    Hook on_validation_epoch_end = {};
    Hook on_test_epoch_end = {};
    Hook on_predict_epoch_end = {};
    Hook on_train_epoch_end = {};
    Hook on_train_end = {};
    Hook on_fit_end = {};
  };
  explicit LambdaCallback(Args args) : args_(std::move(args)) {}

  void on_fit_start(Run& run) override { call(args_.on_fit_start, run); }
  void on_train_start(Run& run) override { call(args_.on_train_start, run); }
  void on_train_epoch_start(Run& run) override { call(args_.on_train_epoch_start, run); }
  void on_train_batch_start(Run& run, const Batch& batch, std::int64_t batch_idx) override {
    call(args_.on_train_batch_start, run, batch, batch_idx);
  }
  void on_before_optimizer_step(Run& run, OptimizerRef& optimizer) override {
    call(args_.on_before_optimizer_step, run, optimizer);
  }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override {
    call(args_.on_train_batch_end, run, output, batch, batch_idx);
  }
  void on_validation_epoch_start(Run& run) override { call(args_.on_validation_epoch_start, run); }
  void on_validation_epoch_end(Run& run) override { call(args_.on_validation_epoch_end, run); }
  void on_test_epoch_end(Run& run) override { call(args_.on_test_epoch_end, run); }
  void on_predict_epoch_end(Run& run) override { call(args_.on_predict_epoch_end, run); }
  void on_train_epoch_end(Run& run) override { call(args_.on_train_epoch_end, run); }
  void on_train_end(Run& run) override { call(args_.on_train_end, run); }
  void on_fit_end(Run& run) override { call(args_.on_fit_end, run); }

 private:
  template <class... Arguments>
  static void call(const std::function<void(Arguments...)>& hook,
                   std::type_identity_t<Arguments>... arguments) {
    if (hook) hook(arguments...);
  }

  Args args_;
};

}  // namespace cxtrain
