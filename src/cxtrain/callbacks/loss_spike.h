#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"

namespace cxtrain {

/// Detects losses above the range of the last losses. The usual loss is the median of the last losses. The
/// spread is 1.4826 times the median of their distances from the usual loss, which is the standard deviation
/// of normally distributed losses. A few outliers change neither number
/// (https://en.wikipedia.org/wiki/Median_absolute_deviation). Pure.
class SpikeDetector {
 public:
  struct Limits {
    std::size_t window = 100;  ///< number of last losses; a fifth of them must come before the first spike
    double deviations = 10;    ///< above the median, in spreads
    std::size_t in_a_row = 3;  ///< losses that make a spike; a single high loss may come from an odd batch
  };
  struct Spike {
    double usual = 0;  ///< the median
    double spread = 0;
    std::size_t losses = 0;  ///< in a row; the last one was added now
  };

  explicit SpikeDetector(const Limits& limits) : limits_(limits) {}

  /// Adds the next loss; a loss that is not finite is above every range. Returns a spike once, when the spike
  /// is long enough. Losses of a spike that lasts as long as the window become usual.
  std::optional<Spike> add(double loss);

 private:
  Limits limits_;
  std::deque<double> usual_;   ///< the last losses that were no spike
  std::deque<double> spiked_;  ///< the losses of the spike under way
};

/// Looks whether the loss explodes: each rank at its own, so that the one is named whose samples it comes
/// from. Warns, or ends the run, which then goes on from a checkpoint of before. It does not go back by
/// itself: the same steps would come to the same loss.
class LossSpike final : public Callback {
 public:
  struct Args {
    SpikeDetector::Limits limits;
    std::int64_t every_n_train_steps = 1;  ///< on a GPU each look waits for the step
    bool stop = false;                     ///< ends the run with a TrainingError, instead of a warning

    void fields(auto&& field) {
      field("window", limits.window, "number of losses that define the usual range", Range::at_least(5));
      field("deviations", limits.deviations, "above the median, in usual spreads", Range::at_least(1));
      field("in_a_row", limits.in_a_row, "number of losses in a row; a single one may be an odd batch",
            Range::at_least(1));
      field("every_n_train_steps", every_n_train_steps, "look at the loss every N steps", Range::at_least(1));
      field("stop", stop, "end the run, instead of a warning");
    }
  };
  /// Throws ConfigError for arguments outside of their ranges.
  explicit LossSpike(const Args& args);

  void on_train_start(Run&) override { detector_ = SpikeDetector(args_.limits); }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  Args args_;
  SpikeDetector detector_;
};

}  // namespace cxtrain
