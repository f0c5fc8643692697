#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <vector>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/process.h"
#include "support/catch.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/times.h"

/// A rank that is killed or stopped inside a collective, with all others on their way into it: the job ends,
/// all of its processes do, and one message says who it was.
namespace cxtrain::test {
namespace {

struct Fault {
  int ranks;
  int rank;           ///< the one that is hit
  const char* place;  ///< what the rank waits in (`--model.place`)
  const char* signal;
  const char* strategy = "ddp";

  /// Whether the rank waits in MPI. Such a rank calls `sched_yield` only if `mpi_yield_when_idle` is set. A
  /// rank that waits in a barrier of its node calls `sched_yield` only if `mpi_yield_when_idle` is not set.
  bool in_mpi() const { return !std::string_view(strategy).starts_with("zero"); }
};

constexpr int kTimeout = 3;  // s; of the ranks that wait for a stopped one
constexpr int kSpare = 20;   // s; what the end of a job may take beyond that, on a machine that is busy
constexpr int kStep = 3;

/// A job whose rank hits itself; waits until it has.
class StruckJob {
 public:
  StruckJob(const TempDir& dir, const Fault& fault)
      : dir_(dir), ranks_(fault.ranks), hit_(make_pipes()), program_(command(fault)) {
    const auto hit = [&] {
      pollfd source{hit_.get(), POLLIN, 0};
      return poll(&source, 1, 0) == 1;
    };
    becomes_true([&] { return hit() || program_.has_ended(); });
    was_hit_ = hit();
    for (int rank = 0; rank < ranks_; ++rank) {
      pid_t process = 0;
      std::ifstream(dir_.file("process_" + std::to_string(rank))) >> process;
      processes_.push_back(process);
    }
  }

  bool was_hit() const { return was_hit_; }
  pid_t process(int rank) const { return processes_.at(static_cast<std::size_t>(rank)); }
  ProgramResult wait(int seconds) { return program_.wait(seconds); }

  /// Whether every rank's process is gone, or soon is: a process's pipes close before its number is free.
  bool all_gone() const {
    const auto gone = [](pid_t process) { return process > 0 && !runs(process); };
    return becomes_true([&] { return std::all_of(processes_.begin(), processes_.end(), gone); }, 5);
  }

 private:
  /// A pipe for each rank, which the rank reads until the fault, and a pipe that closes at the fault.
  FileDescriptor make_pipes() const {
    for (int rank = 0; rank < ranks_; ++rank) {
      if (mkfifo(dir_.file("wait_" + std::to_string(rank)).c_str(), 0600) != 0)
        throw std::runtime_error("mkfifo");
    }
    if (mkfifo(dir_.file("hit").c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
    return FileDescriptor(open(dir_.file("hit").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  std::string command(const Fault& fault) const {
    const std::string plugin = std::string(CXTRAIN_TEST_PLUGIN_DIR) + "/killed_rank.so";
    const char* sanitizer = std::getenv("ASAN_OPTIONS");
    // A sanitizer wants to be loaded first.
    return std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(fault.ranks) +
           " --oversubscribe --bind-to none --mca mpi_yield_when_idle " + (fault.in_mpi() ? "1" : "0") +
           " -x LD_PRELOAD=" + plugin + " -x ASAN_OPTIONS=" + (sanitizer != nullptr ? sanitizer : "") +
           ":verify_asan_link_order=0 " + kProgram +
           " fit --accelerator cpu --max_epochs -1 --enable_progress_bar false --plugin " + plugin +
           " --model killed_rank --model.folder " + dir_.path() + " --model.rank " +
           std::to_string(fault.rank) + " --model.place " + fault.place + " --model.signal " + fault.signal +
           " --model.step " + std::to_string(kStep) + " --strategy " + fault.strategy +
           " --timeout_seconds " + std::to_string(kTimeout) + in(dir_);
  }

  /// One that has ended and whose status nobody has asked for does not.
  static bool runs(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    const std::size_t after_name = line.rfind(')');
    return after_name != std::string::npos && line[after_name + 2] != 'Z';
  }

  const TempDir& dir_;
  int ranks_;
  FileDescriptor hit_;
  RunningProgram program_;
  bool was_hit_ = false;
  std::vector<pid_t> processes_;
};

/// What rank 0 leaves behind, where it is not the one that was hit.
void check_run_file(const TempDir& dir, const Fault& fault) {
  if (fault.rank == 0) return;
  const auto json = run_json(dir);
  CHECK(json["status"] == "failed");
  CHECK(json["global_step"] == kStep);
}

TEST_CASE("a rank that is killed inside a collective ends the job, and is named once") {
  const Fault fault = GENERATE(Fault{2, 1, "gradients", "kill"}, Fault{3, 0, "agreement", "kill"},
                               Fault{4, 2, "gradients", "kill"}, Fault{2, 1, "gradients", "kill", "zero"},
                               Fault{3, 1, "step", "kill", "zero --strategy.parameters all"},
                               Fault{2, 1, "step", "kill", "pipeline"});
  const TempDir dir;
  StruckJob job(dir, fault);
  CAPTURE(fault.ranks, fault.rank, fault.place, fault.strategy);
  if (!job.was_hit()) FAIL("no rank was hit: " << job.wait(1).output);
  const ProgramResult run = job.wait(kSpare);
  CAPTURE(run.output);
  CHECK(run.status == 137);
  CHECK(job.all_gone());
  // mpirun sees a rank die, and prints these words. Open MPI 5 breaks the line within them.
  std::string words = run.output;
  std::replace(words.begin(), words.end(), '\n', ' ');
  const std::regex message("process rank " + std::to_string(fault.rank) + " with PID [0-9]+ on node " +
                           hostname().substr(0, hostname().find('.')) + "[^ ]* exited on signal 9 ");
  CHECK(std::regex_search(words, message));
  CHECK(times(words, " exited on signal ") == 1);
  CHECK(times(run.output, "error: ") == 0);
  check_run_file(dir, fault);
}

TEST_CASE("a rank that is stopped inside a collective ends the job, and is named once") {
  const Fault fault = GENERATE(
      Fault{2, 0, "agreement", "stop"}, Fault{3, 2, "gradients", "stop"}, Fault{4, 1, "agreement", "stop"},
      Fault{3, 1, "step", "stop", "zero --strategy.parameters all"}, Fault{2, 1, "step", "stop", "pipeline"});
  const TempDir dir;
  StruckJob job(dir, fault);
  CAPTURE(fault.ranks, fault.rank, fault.place, fault.strategy);
  if (!job.was_hit()) FAIL("no rank was hit: " << job.wait(1).output);
  const ProgramResult run = job.wait(kTimeout + kSpare);
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(job.all_gone());
  // What the killed rank has sent before may carry the others past the collective, into the next one.
  const std::regex message(
      "error: rank " + std::to_string(fault.rank) + " \\(process " + std::to_string(job.process(fault.rank)) +
      "\\) on " + hostname() + " is stopped: rank [0-9], epoch 0, step " + std::to_string(kStep) +
      ", has waited in (all_reduce|an allreduce of the status flags|all_gather|recv) for [0-9]+ s");
  CHECK(std::regex_search(run.output, message));
  CHECK(times(run.output, "error: ") == 1);
  check_run_file(dir, fault);
}

}  // namespace
}  // namespace cxtrain::test
