#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/flight_recorder.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Detects a rank that is slower than the others, by the time that each rank takes for its own work in a
/// step. A rank is slower if it was the slowest in several windows of steps in a row: by a clear margin in
/// each window, and by a large margin in most windows. A delay that happens once, or to one rank after the
/// other, is noise. Pure.
class StragglerDetector {
 public:
  /// Least shares by which the time of a slow rank exceeds the median of the other ranks: `in_each` of the
  /// `windows` windows, and `in_most` of them, which is more than half (three of four).
  struct Limits {
    double in_each = 0.05, in_most = 0.15;
    std::size_t windows = 4;
    double seconds = 0.001;  ///< least delay of a step that is reported
  };
  struct Straggler {
    int rank = 0;
    double seconds = 0, others_seconds = 0;  ///< of own work in a step
  };

  StragglerDetector() : StragglerDetector(Limits{}) {}
  explicit StragglerDetector(const Limits& limits) : limits_(limits) {}

  /// `seconds`: the own work of each rank in a step of the next window; at least two ranks. Returns a rank
  /// that has become slower. Returns the rank again only after `windows` windows in which the rank was not
  /// slower.
  std::optional<Straggler> add(std::span<const double> seconds);

 private:
  Limits limits_;
  int slowest_ = -1;
  std::vector<Straggler> in_a_row_;  ///< windows in which `slowest_` was the slowest rank
  int found_ = -1;                   ///< the rank that was returned last
  std::size_t recovered_ = 0;        ///< windows since then in which `found_` was not slower
};

/// Returns the time of an undisturbed step: the mean of the shortest three fifths of `steps`.
double typical_step(std::vector<double> steps);

/// Says on rank 0 when a rank is slower than the others, which wait for it: the rank, its host, and how much
/// of the time is lost by it. Once for as long as it lasts.
///
/// What counts is a rank's own work: the time from one step to the next without its waits for other ranks,
/// both as the watchdog's recorder has them, so that no clock is read for it. The ranks exchange it after a
/// window of five steps, or of as many as fit into 0.6 s; a rank that is slower is told of after four
/// windows. Where a node has more ranks than cores nothing is said: there the ranks take turns. On GPUs the
/// host's time is what counts, in which it does not wait for other ranks: a slow loader shows, and a slow GPU
/// does not.
class Stragglers final : public Callback {
 public:
  /// `world` has several ranks and outlives it.
  explicit Stragglers(World& world) : world_(world) {}

  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  void exchange(Run& run);
  void note_place();

  World& world_;
  bool looks_ = false;
  FlightRecorder::Ticks last_end_ = 0, waited_ = 0;  ///< by the end of that step
  FlightRecorder::Ticks window_begin_ = 0;
  std::size_t window_ = 0;     ///< steps
  std::vector<double> steps_;  ///< of the window so far: ticks of own work
  std::vector<double> of_all_ranks_;
  StragglerDetector detector_;
};

}  // namespace cxtrain
