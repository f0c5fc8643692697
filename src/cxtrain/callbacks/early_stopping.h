#pragma once

#include <optional>
#include <string>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

/// Stops training when a monitored metric has not improved for `patience` checks: Lightning's EarlyStopping.
/// All ranks read an equal value, and so make the same decision.
class EarlyStopping final : public Callback {
 public:
  struct Args {
    std::string monitor;
    MonitorMode mode = MonitorMode::min;
    std::int64_t patience = 3;
    double min_delta = 0;
    bool check_finite = true;  ///< stop when the metric is NaN or infinite
    /// True: check at the end of each epoch, when metrics of training are known, too. False: check at the end
    /// of each validation. Absent, as in Lightning: at the end of the epoch if no validation runs anywhere
    /// else.
    std::optional<bool> check_on_train_epoch_end = {};

    void fields(auto&& field) {
      field("monitor", monitor, "the name of a metric that is logged", kRequired);
      field("mode", mode, "direction of an improvement");
      field("patience", patience, "validations to wait", Range::at_least(0));
      field("min_delta", min_delta, "smaller changes do not count", Range::at_least(0));
      field("check_finite", check_finite, "stop when the metric is NaN or infinite");
      field("check_on_train_epoch_end", check_on_train_epoch_end,
            "look at the end of each epoch, not of each validation");
    }
  };
  /// Throws ConfigError for a negative patience or delta.
  explicit EarlyStopping(Args args);

  bool monitors() const override { return true; }
  /// Another fit counts from its own first check, and trains although the fit before was stopped.
  void setup(Run&, Stage stage) override {
    if (stage == Stage::fit) begin();
  }
  /// These throw TrainingError if nothing was logged under the monitored name. The message names the logged
  /// metrics.
  void on_validation_end(Run& run) override {
    if (!run.progress().sanity_checking && !at_epoch_end(run)) check(run);
  }
  void on_train_epoch_end(Run& run) override {
    if (at_epoch_end(run) && run.progress().epoch_is_complete) check(run);
  }
  /// Requests the stop again that the resumed run had requested.
  void on_train_start(Run& run) override {
    if (!stopped_for_.empty()) run.request_stop(stopped_for_, RequestedBy::all_ranks);
  }

  void on_save_checkpoint(StateDict& state) override;
  void on_load_checkpoint(const StateDict& state) override;
  std::string state_key() const override {
    return "EarlyStopping{monitor: " + args_.monitor + ", mode: " + std::string(word_of(args_.mode)) + "}";
  }

 private:
  void begin();
  bool at_epoch_end(const Run& run) const {
    return args_.check_on_train_epoch_end.value_or(run.progress().validates_at_epoch_end_only);
  }
  void check(Run& run);
  void stop(Run& run, std::string reason) {
    stopped_for_ = reason;
    run.request_stop(std::move(reason), RequestedBy::all_ranks);
  }

  Args args_;
  double best_ = 0;
  std::int64_t wait_ = 0;
  std::string stopped_for_;  ///< reason of the requested stop; empty: none requested
};

}  // namespace cxtrain
