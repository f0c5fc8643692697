#pragma once

#include <functional>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"
#include "cxtrain/metrics/bar_reader.h"
#include "cxtrain/report/progress_report.h"

namespace cxtrain {

/// Tells how far a training is, every few seconds, at its beginning and at its end. Rank 0 does; nobody waits
/// for another rank or a device.
class ReportProgress : public Callback {
 public:
  /// Where reports go. What it throws as a FileError is logged once, and it is not called again.
  using Target = std::function<void(Run& run, const ProgressReport& report)>;

  /// `seconds`: between two reports. `clock`: a steady one; it outlives this.
  ReportProgress(Target target, double seconds, const Clock& clock);

  void on_train_start(Run& run) override;
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_end(Run& run) override {
    if (run.rank() == 0) report(run, run.progress().batch_idx, /*training=*/false);
  }
  void on_exception(Run& run, const std::exception&) override {
    if (reports_) on_train_end(run);
  }

 private:
  void report(Run& run, std::int64_t batches_done, bool training);

  Target target_;
  double seconds_;
  const Clock& clock_;
  BarReader metrics_;
  std::int64_t batches_ = 0;  ///< since training began
  std::int64_t samples_ = 0;  ///< since the last report
  std::int64_t last_step_ = 0;
  bool reports_ = false;                    ///< a training has begun
  double begin_ = 0, last_ = 0, next_ = 0;  ///< on the clock
};

/// Writes each report to progress.json in the run's folder, where there is one; for `cxtrain_mpi status`.
/// `checkpoint_folder`: where checkpoints go instead of into the run's folder, or empty.
ReportProgress::Target progress_file(Filesystem& files, const std::string& checkpoint_folder);

/// Writes each report to a file, for the textfile collector of Prometheus' node_exporter.
class Prometheus final : public ReportProgress {
 public:
  struct Args {
    std::string path;
    double seconds = 15;

    void fields(auto&& field) {
      field("path", path, "the file, as /var/lib/node_exporter/cxtrain.prom", kRequired);
      field("seconds", seconds, "between two writes", Range::at_least(0.1));
    }
  };
  explicit Prometheus(const Args& args);
};

}  // namespace cxtrain
