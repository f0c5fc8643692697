#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// The checkpoints of a fit that are on the disk, by the reason to keep each.
struct KeptCheckpoints {
  std::map<std::string, double> best;  ///< path -> value of the monitored metric, at most `save_top_k`
  std::string best_path;               ///< empty: none
  std::string last_path;               ///< the newest checkpoint; empty: none

  std::set<std::string> paths() const;
};

/// Decides which checkpoints a fit keeps: the rules of ModelCheckpoint as a value. Equal arguments give equal
/// results, so ranks that hold equal metrics decide alike.
class CheckpointPolicy {
 public:
  struct Rules {
    bool monitors = false;  ///< a metric compares checkpoints; else the newest is the best
    MonitorMode mode = MonitorMode::min;
    std::int64_t save_top_k = 1;           ///< checkpoints to keep; -1: all; 0: none
    bool save_last = false;                ///< keep the newest checkpoint, too
    std::int64_t every_n_train_steps = 0;  ///< 0: not by steps
    std::int64_t every_n_epochs = 0;       ///< 0: not by epochs
  };
  explicit CheckpointPolicy(Rules rules) : rules_(rules) {}

  bool due_after_step(std::int64_t global_step) const {
    return rules_.every_n_train_steps > 0 && global_step % rules_.every_n_train_steps == 0;
  }
  /// `epoch` counts from 0.
  bool due_after_epoch(std::int64_t epoch) const {
    return rules_.every_n_epochs > 0 && (epoch + 1) % rules_.every_n_epochs == 0;
  }

  /// A checkpoint to write, before it has a name.
  struct Decision {
    bool among_best = false;
    KeptCheckpoints stays;  ///< of the checkpoints so far, those that stay beside the new one
  };
  /// Decides whether a checkpoint is written. `value`: of the monitored metric; absent: it has none, and the
  /// checkpoint is not among the best. `must_save`: write it in any case.
  std::optional<Decision> decide(const KeptCheckpoints& kept, std::optional<double> value,
                                 bool must_save) const;
  /// Returns the checkpoints after the new one was written to `path`.
  KeptCheckpoints after(Decision decision, const std::string& path, std::optional<double> value) const;

 private:
  bool better(double a, double b) const { return rules_.mode == MonitorMode::min ? a < b : a > b; }
  bool makes_room(KeptCheckpoints& kept, double value) const;
  std::string best_of(const KeptCheckpoints& kept) const;

  Rules rules_;
};

/// Returns the paths of `before` that `after` lacks: the checkpoints to remove.
std::vector<std::string> evicted(const KeptCheckpoints& before, const KeptCheckpoints& after);

}  // namespace cxtrain
