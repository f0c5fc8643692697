#pragma once

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"

namespace cxtrain {

/// Saves and stops training after a time (`max_time`): Lightning's Timer. The first rank to exceed the time
/// decides for all ranks. The time of a resumed training counts, too.
class Timer final : public Callback {
 public:
  struct Args {
    std::int64_t seconds = 0;

    void fields(auto&& field) {
      field("seconds", seconds, "stop after N seconds of training", Range::at_least(0), kRequired);
    }
  };
  /// Throws ConfigError for arguments outside of their ranges.
  explicit Timer(const Args& args);
  /// Another fit has the whole time again.
  void setup(Run&, Stage stage) override {
    if (stage != Stage::fit) return;
    before_ = elapsed_ = 0;
    asked_ = false;
  }
  void on_train_start(Run&) override { began_ = clock_.now(); }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_save_checkpoint(StateDict& state) override { state.set("elapsed_seconds", elapsed_); }
  void on_load_checkpoint(const StateDict& state) override {
    before_ = elapsed_ = state.real("elapsed_seconds");
  }
  std::string state_key() const override { return "Timer"; }

 private:
  double max_seconds_;
  SteadyClock clock_;
  double began_ = 0;    ///< on the clock
  double before_ = 0;   ///< seconds of the resumed training
  double elapsed_ = 0;  ///< seconds at the last step
  bool asked_ = false;
};

}  // namespace cxtrain
