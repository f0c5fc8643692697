#pragma once

#include <stdexcept>
#include <string>

#include "support/run_program.h"
#include "support/running_program.h"

namespace cxtrain::test {

/// A real Slurm cluster on emulated nodes (slurm/testcluster) for one test.
class SlurmCluster {
 public:
  /// Where the machine cannot have one, `why_not` says so, and nothing else may be called.
  explicit SlurmCluster(int nodes = 2) {
    const ProgramResult up = run_command(testcluster("up " + std::to_string(nodes)), 90);
    if (up.status == kSkipped) {
      why_not_ = up.output.empty() ? "no Slurm" : up.output;
    } else if (up.status != 0) {
      throw std::runtime_error(up.output);
    }
  }
  ~SlurmCluster() { run_command(testcluster("down"), 60); }
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  /// Empty: it is there.
  const std::string& why_not() const { return why_not_; }

  /// A command that sees the cluster, in a folder: `srun ...`, `sbatch ...`.
  static ProgramResult run(const std::string& folder, const std::string& command, int deadline = 120) {
    return run_command("cd " + folder + " && export CXTRAIN=" + CXTRAIN_BIN_DIR + "/cxtrain_mpi " +
                           "OMP_NUM_THREADS=1 OMPI_MCA_rmaps_base_oversubscribe=1 && " +
                           testcluster("run " + command),
                       deadline);
  }
  /// Submits one of the project's batch scripts; returns the job's number.
  static std::string submit(const std::string& folder, const std::string& words) {
    const ProgramResult submitted =
        run(folder, "sbatch --parsable " + std::string(CXTRAIN_SOURCE_DIR) + "/slurm/" + words);
    if (submitted.status != 0) throw std::runtime_error(submitted.output);
    return submitted.output.substr(0, submitted.output.find('\n'));
  }
  /// "RUNNING", "COMPLETED", ...
  static std::string state(const std::string& job) { return field(job, "JobState"); }
  static int restarts(const std::string& job) { return std::stoi(field(job, "Restarts")); }
  /// Until the job is in one of the states that are its end; its state.
  static std::string wait(const std::string& job, int seconds = 120) {
    std::string last;
    becomes_true(
        [&] {
          last = state(job);
          // Slurm has a requeued job wait for two minutes: its steps get their old numbers again, and what is
          // left of the old ones has to be gone.
          if (last == "PENDING" && field(job, "Reason") == "BeginTime" && !has_steps(job))
            run("/", "scontrol update JobId=" + job + " StartTime=now", 20);
          return last == "COMPLETED" || last == "FAILED" || last == "CANCELLED" || last == "TIMEOUT";
        },
        seconds);
    return last;
  }

 private:
  static constexpr int kSkipped = 77;
  static std::string testcluster(const std::string& words) {
    return std::string(CXTRAIN_SOURCE_DIR) + "/slurm/testcluster " + words;
  }
  static bool has_steps(const std::string& job) {
    return run_command("pgrep -f \"^slurmstepd: .*" + job + "[.]\"", 20).status == 0;
  }
  static std::string field(const std::string& job, const std::string& name) {
    const std::string shown = run("/", "scontrol --oneliner show job " + job, 20).output;
    const std::size_t at = shown.find(name + "=");
    if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + shown);
    const std::size_t begin = at + name.size() + 1;
    return shown.substr(begin, shown.find(' ', begin) - begin);
  }

  std::string why_not_;
};

}  // namespace cxtrain::test
