#pragma once

#include <optional>

#include "cxtrain/base/clock.h"

namespace cxtrain {

/// The seconds of a run: since it began, and those spent on training batches, without validations and the
/// hooks of fits and epochs.
class TrainingClock {
 public:
  /// `clock` outlives it.
  explicit TrainingClock(const Clock& clock) : clock_(clock), began_(clock.now()) {}

  void restart() { began_ = clock_.now(); }
  double seconds_since_start() const { return clock_.now() - began_; }

  /// Starts and stops the count of training seconds. A second call in a row has no effect.
  void resume() {
    if (!running_since_) running_since_ = clock_.now();
  }
  void pause() {
    trained_ = seconds_trained();
    running_since_.reset();
  }
  bool running() const { return running_since_.has_value(); }
  double seconds_trained() const { return trained_ + (running_since_ ? clock_.now() - *running_since_ : 0); }
  /// Continues the count of an earlier run.
  void set_seconds_trained(double seconds) { trained_ = seconds; }

  /// Seconds from the start of the program to the end of the first step; 0 before.
  double first_step_seconds() const { return first_step_seconds_; }
  void set_first_step_seconds(double seconds) { first_step_seconds_ = seconds; }

 private:
  const Clock& clock_;
  double began_;
  double trained_ = 0;
  double first_step_seconds_ = 0;
  std::optional<double> running_since_;
};

}  // namespace cxtrain
