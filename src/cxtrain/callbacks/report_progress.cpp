#include "cxtrain/callbacks/report_progress.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

/// Until the end that comes first, at the speed since the beginning, validations and checkpoints included.
std::optional<double> seconds_left(const Run& run, std::int64_t batch, std::int64_t batches_done,
                                   double seconds) {
  if (batches_done == 0 || seconds <= 0) return std::nullopt;
  const double each = seconds / static_cast<double>(batches_done);
  std::optional<double> batches;
  if (run.progress().max_epochs >= 0 && run.progress().num_batches > 0) {
    const std::int64_t epochs = std::max<std::int64_t>(0, run.progress().max_epochs - run.current_epoch());
    batches = static_cast<double>(epochs) * static_cast<double>(run.progress().num_batches) -
              static_cast<double>(batch);
  }
  if (run.progress().max_steps >= 0) {
    const double steps = static_cast<double>(run.progress().max_steps - run.global_step());
    const double by_steps = steps * static_cast<double>(run.plan().accumulate_grad_batches);
    batches = batches ? std::min(*batches, by_steps) : by_steps;
  }
  if (!batches) return std::nullopt;
  return std::max(0.0, *batches * each);
}

/// Returns the clock of every Prometheus callback.
const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace

ReportProgress::ReportProgress(Target target, double seconds, const Clock& clock)
    : target_(std::move(target)), seconds_(seconds), clock_(clock) {}

void ReportProgress::on_train_start(Run& run) {
  metrics_ = {};
  if (run.rank() != 0) return;
  reports_ = true;
  begin_ = last_ = clock_.now();
  last_step_ = run.global_step();
  report(run, run.progress().batch_idx, /*training=*/true);
}

void ReportProgress::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t batch_idx) {
  if (run.rank() != 0) return;
  ++batches_;
  samples_ += run.progress().samples_per_batch;
  if (clock_.now() >= next_) report(run, batch_idx + 1, /*training=*/true);
}

void ReportProgress::report(Run& run, std::int64_t batches_done, bool training) {
  if (!target_) return;
  const double now = clock_.now(), lately = now - last_;
  ProgressReport report{.time = seconds_since_1970(),
                        .run = run.log_dir(),
                        .host = hostname(),
                        .ranks = run.world().size(),
                        .nodes = run.plan().num_nodes,
                        .epoch = run.current_epoch(),
                        .max_epochs = run.progress().max_epochs,
                        .batch = batches_done,
                        .batches = run.progress().num_batches,
                        .step = run.global_step(),
                        .max_steps = run.progress().max_steps,
                        .seconds_left = seconds_left(run, batches_done, batches_, now - begin_),
                        .checkpoints = run.saved_checkpoints().count,
                        .training = training,
                        .metrics = metrics_.read_arrived(run.metrics())};
  if (lately > 0) {
    report.steps_per_second = static_cast<double>(report.step - last_step_) / lately;
    report.samples_per_second = static_cast<double>(samples_) / lately;
  }
  last_ = now;
  next_ = now + seconds_;
  last_step_ = report.step;
  samples_ = 0;
  try {
    target_(run, report);
  } catch (const FileError& error) {
    log_warning("how far the training is, is not reported any more: " + message_of(error));
    target_ = nullptr;
  }
}

ReportProgress::Target progress_file(Filesystem& files, const std::string& checkpoint_folder) {
  // Who reads it stands elsewhere.
  std::error_code nowhere;
  std::string folder = std::filesystem::absolute(checkpoint_folder, nowhere);
  if (checkpoint_folder.empty() || nowhere) folder = checkpoint_folder;
  return [&files, folder](Run& run, ProgressReport report) {
    if (run.log_dir().empty()) return;
    report.checkpoint_folder = folder;
    write_at_once(files, run.log_dir() + "/" + std::string(kProgressFile), to_json(report) + "\n");
  };
}

Prometheus::Prometheus(const Args& args)
    : ReportProgress(
          [path = args.path](Run& run, const ProgressReport& report) {
            write_at_once(run.files(), path, to_prometheus(report));
          },
          args.seconds, steady_clock()) {}

}  // namespace cxtrain
