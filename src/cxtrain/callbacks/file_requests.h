#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/callback.h"

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

}  // namespace cxtrain
