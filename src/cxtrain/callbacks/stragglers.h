#pragma once

#include <cstdint>
#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/straggler_detector.h"
#include "cxtrain/cluster/flight_recorder.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

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
