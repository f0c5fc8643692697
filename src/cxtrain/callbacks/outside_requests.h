#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/callback.h"

/// Callbacks by which something outside of a training asks it to save or to end.
namespace cxtrain {

/// Asks a running training for something by a file in its folder, where no signal can be sent: `save-now`
/// makes it save and go on, `stop-now` save and stop, as early stopping does. Rank 0 looks every two seconds,
/// and deletes the file that it finds; its content does not matter.
class FileRequests final : public Callback {
 public:
  /// Both outlive it.
  FileRequests(Filesystem& files, const Clock& clock) : files_(files), clock_(clock) {}

  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  bool take(const Run& run, const std::string& name);

  Filesystem& files_;
  const Clock& clock_;
  double next_look_ = 0;
  bool cannot_look_ = false;             ///< which was said
  std::set<std::string> cannot_remove_;  ///< names of files; which was said
  std::optional<std::int64_t> saved_before_request_;
  double asked_at_ = 0;  ///< for that save
};

/// Ends a run, with its state saved and status 75, before the batch system ends the job. It leaves as much
/// time as the slowest save so far has taken three times, and at least 10 s; 30 s before the first save; but
/// never more than half of what there was at the beginning. The first rank whose time is up decides for all.
class WallTime final : public Callback {
 public:
  /// `seconds`: from now to the end of the job; absent: it has none. `clock`: a steady one; it outlives this.
  WallTime(std::optional<double> seconds, const Clock& clock);

  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  double margin(const Run& run) const;

  std::optional<double> seconds_;
  const Clock& clock_;
  double end_ = 0;
  double last_look_ = 0, longest_step_ = 0;  ///< a step and what comes between two, validations among it
  bool asks_ = false;                        ///< this rank does, when it is time
};

}  // namespace cxtrain
