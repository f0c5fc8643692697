#pragma once

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/trainer/module.h"

/// The hooks of a run, and what may be logged in each: Lightning's table (`_FxValidator` in its
/// trainer/connectors/logger_connector/fx_validator.py).
namespace cxtrain {

/// A hook that callbacks and modules share, or that only callbacks have (`module` is then null).
template <class CallbackHook, class ModuleHook>
struct Hook {
  LogRule rule;
  CallbackHook callback;
  ModuleHook module;
};

template <class CallbackHook, class ModuleHook>
Hook(LogRule, CallbackHook, ModuleHook) -> Hook<CallbackHook, ModuleHook>;

namespace hooks {

using Phase = LogRule::Phase;
using Allowed = LogRule::Allowed;

// The steps themselves, which the strategy calls.
inline constexpr LogRule kTrainingStep{"training_step", Phase::training, Allowed::both, true};
inline constexpr LogRule kValidationStep{"validation_step", Phase::evaluation, Allowed::both, false};
inline constexpr LogRule kTestStep{"test_step", Phase::evaluation, Allowed::both, false};
inline constexpr LogRule kPredictStep{"predict_step", Phase::none, Allowed::nothing, false};

#define CXTRAIN_HOOK(name, phase, allowed, on_step)                                         \
  inline constexpr Hook name {                                                              \
    LogRule{#name, Phase::phase, Allowed::allowed, on_step}, &Callback::name, &Module::name \
  }
#define CXTRAIN_CALLBACK_HOOK(name, phase, allowed, on_step)                          \
  inline constexpr Hook name {                                                        \
    LogRule{#name, Phase::phase, Allowed::allowed, on_step}, &Callback::name, nullptr \
  }

CXTRAIN_CALLBACK_HOOK(setup, none, nothing, false);
CXTRAIN_CALLBACK_HOOK(teardown, none, ignored, false);
CXTRAIN_CALLBACK_HOOK(on_exception, none, ignored, false);
CXTRAIN_HOOK(on_fit_start, none, nothing, false);
CXTRAIN_CALLBACK_HOOK(on_sanity_check_start, none, nothing, false);
CXTRAIN_CALLBACK_HOOK(on_sanity_check_end, none, nothing, false);
CXTRAIN_HOOK(on_train_start, training, epoch, false);
CXTRAIN_HOOK(on_train_epoch_start, training, epoch, false);
CXTRAIN_HOOK(on_train_batch_start, training, both, true);
CXTRAIN_HOOK(on_before_zero_grad, training, both, true);
CXTRAIN_HOOK(on_before_backward, training, both, true);
CXTRAIN_HOOK(on_after_backward, training, both, true);
CXTRAIN_HOOK(on_before_optimizer_step, training, both, true);
CXTRAIN_HOOK(on_train_batch_end, training, both, true);
CXTRAIN_HOOK(on_train_epoch_end, training, epoch, false);
CXTRAIN_CALLBACK_HOOK(on_checkpoint, none, nothing, false);
CXTRAIN_HOOK(on_train_end, none, ignored, false);
CXTRAIN_HOOK(on_fit_end, none, ignored, false);
CXTRAIN_HOOK(on_validation_start, evaluation, epoch, false);
CXTRAIN_HOOK(on_validation_epoch_start, evaluation, epoch, false);
CXTRAIN_HOOK(on_validation_batch_start, evaluation, both, false);
CXTRAIN_HOOK(on_validation_batch_end, evaluation, both, false);
CXTRAIN_HOOK(on_validation_epoch_end, evaluation, epoch, false);
CXTRAIN_HOOK(on_validation_end, none, nothing, false);
CXTRAIN_HOOK(on_test_start, evaluation, epoch, false);
CXTRAIN_HOOK(on_test_epoch_start, evaluation, epoch, false);
CXTRAIN_HOOK(on_test_batch_start, evaluation, both, false);
CXTRAIN_HOOK(on_test_batch_end, evaluation, both, false);
CXTRAIN_HOOK(on_test_epoch_end, evaluation, epoch, false);
CXTRAIN_HOOK(on_test_end, none, ignored, false);
CXTRAIN_HOOK(on_predict_start, none, nothing, false);
CXTRAIN_HOOK(on_predict_epoch_start, none, nothing, false);
CXTRAIN_HOOK(on_predict_batch_start, none, nothing, false);
CXTRAIN_HOOK(on_predict_batch_end, none, nothing, false);
CXTRAIN_HOOK(on_predict_epoch_end, none, nothing, false);
CXTRAIN_HOOK(on_predict_end, none, ignored, false);

#undef CXTRAIN_HOOK
#undef CXTRAIN_CALLBACK_HOOK

}  // namespace hooks
}  // namespace cxtrain
