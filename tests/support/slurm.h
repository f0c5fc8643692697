#pragma once

#include <ctime>
#include <iomanip>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>

#include "support/run_files.h"
#include "support/run_program.h"
#include "support/running_program.h"
#include "support/set_up_by_script.h"

namespace cxtrain::test {

/// A real Slurm cluster on two emulated nodes (slurm/testcluster) for one test. Where `why_not` says why it
/// cannot be had, nothing else may be called.
class SlurmCluster : public SetUpByScript {
 public:
  SlurmCluster() : SetUpByScript(kScript, "2") {}

  /// A command that sees the cluster, in a folder: `srun ...`, `sbatch ...`.
  static ProgramResult run(const std::string& folder, const std::string& command, int deadline = 120) {
    return run_command("cd " + folder + " && export CXTRAIN=" + kProgram +
                           " OMP_NUM_THREADS=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
                           // The nodes share this machine's few cores.
                           "OMPI_MCA_mpi_yield_when_idle=1 && " +
                           testcluster("run " + command),
                       deadline);
  }
  /// Submits what these arguments of sbatch say; returns the job's number.
  static std::string sbatch(const std::string& folder, const std::string& arguments) {
    const ProgramResult submitted = run(folder, "sbatch --parsable " + arguments);
    if (submitted.status != 0) throw std::runtime_error(submitted.output);
    return submitted.output.substr(0, submitted.output.find('\n'));
  }
  /// The same of one of the project's batch scripts, with what follows it.
  static std::string submit(const std::string& folder, const std::string& script,
                            const std::string& of_sbatch = {}) {
    return sbatch(folder, of_sbatch + CXTRAIN_SOURCE_DIR + "/slurm/" + script);
  }
  /// "RUNNING", "COMPLETED", ...
  static std::string state(const std::string& job) { return field(job, "JobState"); }
  static int restarts(const std::string& job) { return std::stoi(field(job, "Restarts")); }
  /// For the message of a check that failed: what Slurm knows of the job, and what it has done of late.
  static std::string about(const std::string& job) {
    return run("/", "scontrol show job " + job, 20).output + run("/", "squeue", 20).output +
           run_command("tail -n 30 /run/cxtrain-slurm/slurmctld.log", 20).output;
  }
  /// As `becomes_true`. Each look at a job is a program that asks Slurm, and Slurm acts once a second.
  static bool comes_to(const std::function<bool()>& condition, int seconds = 60) {
    return becomes_true(condition, seconds, std::chrono::milliseconds(250));
  }
  /// Until the job is in one of the states that are its end; its state.
  static std::string wait(const std::string& job, int seconds = 300) {
    std::string last;
    comes_to(
        [&] {
          last = hurry(job);
          return last == "COMPLETED" || last == "FAILED" || last == "CANCELLED" || last == "TIMEOUT";
        },
        seconds);
    return last;
  }
  /// Returns the job's state. Slurm starts a requeued job after two minutes. This function shortens the wait
  /// to two seconds after everything of the job's last start is gone: its processes, and Slurm's messages
  /// about its steps, since the new steps get the same numbers. A job that Slurm starts within the second of
  /// its requeue fails with "Job credential revoked", since slurmd compares whole seconds.
  static std::string hurry(const std::string& job) {
    const std::string now = state(job);
    if (now == "PENDING" && field(job, "Reason") == "BeginTime" && field(job, "EligibleTime") > clock_in(3) &&
        is_settled(job))
      run("/", "scontrol update JobId=" + job + " StartTime=now+2", 20);
    return now;
  }
  /// A node's slurmd dies, and after ten seconds Slurm takes the node for lost; another one takes it up.
  static void lose(const std::string& node) { run_command(testcluster("lose " + node), 20); }
  static void bring_back(const std::string& node) { run_command(testcluster("return " + node), 20); }

 private:
  static constexpr const char* kScript = "slurm/testcluster";
  static std::string testcluster(const std::string& words) {
    return std::string(CXTRAIN_SOURCE_DIR) + "/" + kScript + " " + words;
  }
  /// Nothing is left of the job's steps: no process, no record, and no message that waits for a node.
  static bool is_settled(const std::string& job) {
    if (run_command("pgrep -f \"^slurmstepd: .*" + job + "[.]\"", 20).status == 0) return false;
    if (!run("/", "squeue --noheader --steps --jobs " + job, 20).output.empty()) return false;
    // A message that is being sent has left the queue.
    return std::regex_search(run("/", "sdiag", 20).output,
                             std::regex("\nAgent queue size: +0\nAgent count: +0\nAgent thread count: +0\n"));
  }
  /// The local time in N seconds as Slurm writes it; two such texts compare like their times.
  static std::string clock_in(int seconds) {
    const std::time_t then = std::time(nullptr) + seconds;
    std::tm local{};
    localtime_r(&then, &local);
    std::ostringstream text;
    text << std::put_time(&local, "%Y-%m-%dT%H:%M:%S");
    return text.str();
  }
  static std::string field(const std::string& job, const std::string& name) {
    const std::string shown = run("/", "scontrol --oneliner show job " + job, 20).output;
    const std::size_t at = shown.find(name + "=");
    if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + shown);
    const std::size_t begin = at + name.size() + 1;
    return shown.substr(begin, shown.find(' ', begin) - begin);
  }
};

/// What a job's script has written by now.
inline std::string output_of(const TempDir& dir, const std::string& job) {
  return slurp(dir.file("slurm-" + job + ".out"));
}

/// The folder of a job's run, where its script has it below runs/JOB.
inline std::string run_of(const TempDir& dir, const std::string& job) {
  return dir.path() + "/runs/" + job + "/cxtrain_logs/version_0/";
}

/// What that run wrote at its end.
inline nlohmann::json end_of(const TempDir& dir, const std::string& job) {
  return nlohmann::json::parse(std::ifstream(run_of(dir, job) + "run.json"));
}

}  // namespace cxtrain::test
