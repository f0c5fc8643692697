#pragma once

#include <cstdint>
#include <optional>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/comm/between_nodes/travel_log.h"
#include "cxtrain/trainer/trace_file.h"

namespace cxtrain {

/// The optimizer steps that a trace records, by their number in the training: `first` and those up to `end`.
struct TraceWindow {
  std::int64_t first = 0, end = 0;
};
/// Steps 10 to 14 of a fit; of a shorter fit the last ones. `begin`: steps before the fit. `end`: of the
/// training; 0: unknown.
TraceWindow trace_window(std::int64_t begin, std::int64_t end);

/// Records the operations of a few steps with LibTorch's profiler, the phases of the steps, and the exchanges
/// with other nodes. What other threads do is recorded if autograd runs it; workers of loaders are not
/// recorded.
class StepTrace final : public Callback {
 public:
  /// `steps`: of the whole training; 0: unknown.
  explicit StepTrace(std::int64_t steps) : steps_(steps) {}
  ~StepTrace() override;
  StepTrace(const StepTrace&) = delete;
  StepTrace& operator=(const StepTrace&) = delete;

  void on_train_start(Run& run) override;
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    if (!running_ && !stopped_ && run.global_step() >= window_.first) start(run);
  }
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (running_ && run.global_step() >= window_.end) stop(run);
  }

  /// Puts the trace of all ranks into the run's folder. Collective; after the training, or when all ranks
  /// have left it.
  void finish(Run& run);

 private:
  void start(Run& run);
  void stop(Run& run);

  std::int64_t steps_;
  TraceWindow window_;
  std::int64_t origin_ = 0;  ///< nanoseconds since 1970, by the clock of rank 0: where times begin
  bool running_ = false, stopped_ = false;
  std::optional<TravelLog> travel_log_;  ///< while the trace runs
  TracePart part_;
};

}  // namespace cxtrain
