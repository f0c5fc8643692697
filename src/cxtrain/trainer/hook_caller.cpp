#include "cxtrain/trainer/hook_caller.h"

#include <exception>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

/// For callbacks that monitor: the row of the epoch has its values by then.
constexpr LogRule kAfterReduction{"on_train_epoch_end of a callback that monitors", LogRule::Phase::none,
                                  LogRule::Allowed::ignored, /*on_step=*/false};

}  // namespace

MetricStore::Values HookCaller::end_train_epoch() {
  const PhaseScope phase(Phase::hooks);
  MetricStore::Values values = metrics_.reduce_epoch(LogRule::Phase::training, run_.world());
  {
    const LogScope scope(metrics_, hooks::on_train_epoch_end.rule);
    for (Callback* const callback : callbacks_) {
      if (!callback->monitors()) callback->on_train_epoch_end(run_);
    }
    module_.on_train_epoch_end();
  }
  const MetricStore::Values of_hooks = metrics_.reduce_epoch(LogRule::Phase::training, run_.world());
  values.insert(values.end(), of_hooks.begin(), of_hooks.end());
  metrics_.model_metrics().reset();
  const LogScope scope(metrics_, kAfterReduction);
  for (Callback* const callback : callbacks_) {
    if (callback->monitors()) callback->on_train_epoch_end(run_);
  }
  return values;
}

void HookCaller::report(const std::exception& error) noexcept {
  for (Callback* const callback : callbacks_) {
    try {
      callback->on_exception(run_, error);
    } catch (const std::exception& another) {
      log_warning("on_exception of a callback has failed: " + message_of(another));
    } catch (...) {
      log_warning("on_exception of a callback has failed: " + message_of_other_exception());
    }
  }
}

}  // namespace cxtrain
