#include "cxtrain/callbacks/divergence_check.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/loss_spike.h"
#include "cxtrain/callbacks/timer.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

template <class Made>
std::string refusal_of(const typename Made::Args& args) {
  return test::error_of([&] { Made{args}; });
}

TEST_CASE("arguments that a program gives in C++ have the ranges of the command line") {
  CHECK_THAT(refusal_of<Ema>({.every_n_steps = 0}), test::contains("callbacks.ema.every_n_steps"));
  CHECK_THAT(refusal_of<Ema>({.decay = 2}), test::contains("callbacks.ema.decay"));
  CHECK_THAT(refusal_of<DivergenceCheck>({.every_n_train_steps = 0}),
             test::contains("callbacks.divergence_check.every_n_train_steps"));
  CHECK_THAT(refusal_of<LossSpike>({.limits = {}, .every_n_train_steps = 0}),
             test::contains("callbacks.loss_spike.every_n_train_steps"));
  CHECK_THAT(refusal_of<Timer>({.seconds = -1}), test::contains("callbacks.timer.seconds"));
  CHECK_THAT(refusal_of<EarlyStopping>({.monitor = "val_loss", .patience = -1}),
             test::contains("callbacks.early_stopping.patience"));
  CHECK_NOTHROW(Ema({.every_n_steps = 2}));
}

}  // namespace
}  // namespace cxtrain
