#include "cxtrain/scaling/study_runner.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ostream>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/scaling/measurement.h"
#include "cxtrain/scaling/study_files.h"
#include "launchers/child_process.h"
#include "launchers/signal_inbox.h"

namespace cxtrain {
namespace {

class StudyRunner {
 public:
  StudyRunner(const Study& study, const std::string& folder, const std::string& program, Filesystem& files,
              std::ostream& out)
      : study_(study), folder_(folder), program_(program), files_(files), out_(out) {}

  int run() {
    for (const StudyPoint& point : schedule_of(study_)) {
      const std::optional<Measurement> before = read_point(files_, folder_, point);
      if (before && !before->failed()) continue;
      out_ << "round " << point.round << " of " << study_.rounds << ", " << name_of(point.size) << ": "
           << std::flush;
      const std::optional<Measurement> measured = measure(point);
      if (!measured) {
        out_ << "stopped; the same command goes on with the study" << std::endl;
        return 128 + *signal_;
      }
      write_point(files_, folder_, *measured);
      out_ << line_of(*measured) << std::endl;
    }
    return 0;
  }

 private:
  static std::string line_of(const Measurement& measured) {
    if (measured.failed()) return "failed, " + measured.failure;
    return format_metric(1e3 * measured.step) + " ms a step, " +
           format_rate(static_cast<double>(measured.samples_per_step) / measured.step) + " samples/s";
  }

  /// Nothing if a signal asked the study to end.
  std::optional<Measurement> measure(const StudyPoint& point) {
    constexpr int kAttempts = 2;
    Measurement measured{.size = point.size, .round = point.round};
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const int status = train(point);
      if (signal_) return std::nullopt;
      measured.failure =
          "exit status " + std::to_string(status) + ", see " + folder_ + "/" + point.folder() + "/output.log";
      if (status == 0) {
        measured.failure = "it has written no run.json";
        measured = measure_run(files_, folder_, point).value_or(measured);
      }
      if (!measured.failed()) break;
    }
    return measured;
  }

  /// Returns the exit status of the training.
  int train(const StudyPoint& point) {
    const std::string root = folder_ + "/" + point.folder();
    make_directories(files_, root);
    if (const auto status = files_.own_status(root); status && status->is_link)
      throw ConfigError("", root + " is a symbolic link, and trainings are written into real folders only",
                        "remove it, or use another folder", MessageCode::unsafe_file);
    const std::string log = root + "/output.log";
    const FileDescriptor output(
        open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!output)
      throw Error(ExitCode::failure, MessageCode::file_failed,
                  "cannot write " + log + ": " + std::strerror(errno));
    std::vector<std::string> words{program_, "fit"};
    const std::vector<std::string> options = options_of_point(study_, point.size, root);
    words.insert(words.end(), options.begin(), options.end());
    SignalInbox signals({SIGCHLD});
    ChildProcess child(words, output.get());
    int ends = 0;
    while (!child.status()) {
      pollfd source{signals.descriptor(), POLLIN, 0};
      constexpr int kLook = 1000;  // milliseconds: a thread of a library may have taken SIGCHLD
      poll(&source, 1, kLook);
      while (const std::optional<int> signal = signals.take()) {
        if (*signal == SIGCHLD) continue;
        if (ends_a_process(*signal)) {
          signal_ = *signal;
          ++ends;
        }
        if (ends > 2) {
          child.kill_group();
        } else {
          child.send(*signal);
        }
      }
    }
    return *child.status();
  }

  const Study& study_;
  const std::string& folder_;
  const std::string& program_;
  Filesystem& files_;
  std::ostream& out_;
  std::optional<int> signal_;  ///< that asked the study to end
};

}  // namespace

int run_study(const Study& study, const std::string& folder, const std::string& program, Filesystem& files,
              std::ostream& out) {
  if (study.threads > 0) setenv("OMP_NUM_THREADS", std::to_string(study.threads).c_str(), /*overwrite=*/1);
  return StudyRunner(study, folder, program, files, out).run();
}

}  // namespace cxtrain
