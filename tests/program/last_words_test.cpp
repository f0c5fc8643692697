#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <regex>

#include "cxtrain/base/process.h"
#include "support/catch.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/skip.h"
#include "support/times.h"

/// What a job that ends for the sake of one rank leaves in the log files of all: where each of them was.
namespace cxtrain::test {
namespace {

const std::string kFaultyModel = kFaulty + "--accelerator cpu --enable_progress_bar false ";
/// One line of what a rank has recorded: number, step, and what it took.
const std::regex kRecorded(
    "\n  number [0-9]+, step 5, an allreduce of the status flags: has waited for [0-9.]+ s");

std::string log_of_rank(const TempDir& dir, int rank) {
  return slurp(dir.path() + "/cxtrain_logs/version_0/rank_" + std::to_string(rank) + ".log");
}

TEST_CASE("an endless loop of one rank is found: its stack is in its log, the others' waits in theirs") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, kFaultyModel + "--model.fault loop --timeout_seconds 3" + in(dir));
  const std::string looping = log_of_rank(dir, 1), waiting = log_of_rank(dir, 0);
  CAPTURE(run.output, looping, waiting);
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
  const std::regex behind(
      "elsewhere in the program, 1 collective behind \\(number ([0-9]+), rank 0 waits in "
      "number ([0-9]+)\\): rank 0, epoch 0, step 5");
  std::smatch numbers;
  REQUIRE(std::regex_search(run.output, numbers, behind));
  CHECK(std::stoi(numbers[1]) + 1 == std::stoi(numbers[2]));
  CHECK(looping.find("others wait for this rank; the main thread is here:\n") != std::string::npos);
  CHECK(looping.find("faulty.so +0x") != std::string::npos);
  CHECK(std::regex_search(waiting, kRecorded));
  CHECK(waiting.find("number " + numbers[2].str() + ", step 5, ") != std::string::npos);
}

TEST_CASE("of a stopped rank the others write what the kernel knows") {
  const TempDir dir;
  RunningProgram program(std::string(CXTRAIN_MPIEXEC) + " -np 3 --oversubscribe --bind-to none " + kProgram +
                         " --accelerator cpu --max_epochs -1 --timeout_seconds 4 " +
                         "--log_every_n_steps 1 --enable_progress_bar false" + in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  const pid_t process = wait_for_rank(dir, 1);
  kill(process, SIGSTOP);
  const ProgramResult run = program.wait();
  CHECK(run.status == 1);
  for (const int rank : {0, 2}) {
    const std::string log = log_of_rank(dir, rank);
    CAPTURE(run.output, rank, log);
    CHECK(log.find("the kernel says of rank 1 (process " + std::to_string(process) +
                   "): it is stopped (state T") != std::string::npos);
    CHECK(times(log, "this rank's last waits for other ranks") == 1);
    CHECK(log.find("the main thread is here:\n") != std::string::npos);
  }
}

TEST_CASE("where one rank throws, it and those that wait for it write where they were") {
  const TempDir dir;
  const ProgramResult run = run_ranks(3, kFaultyModel + "--model.fault throw --model.rank 0" + in(dir));
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
  for (const int rank : {0, 1, 2}) {
    const std::string log = log_of_rank(dir, rank);
    CAPTURE(run.output, rank, log);
    CHECK(times(log, "this rank's last waits for other ranks") == 1);
    CHECK(log.find(", step 4, ") != std::string::npos);
    if (rank > 0) CHECK(std::regex_search(log, kRecorded));
  }
}

TEST_CASE("a rank that crashes says where, and its stack is in its log") {
  struct Row {
    const char* fault;
    const char* cause;
    int signal;
  };
  const Row row = GENERATE(Row{"crash", "SIGSEGV", SIGSEGV}, Row{"terminate", "SIGABRT", SIGABRT});
  const TempDir dir;
  const ProgramResult run = run_ranks(2, kFaultyModel + "--model.fault " + row.fault + in(dir));
  const std::string log = log_of_rank(dir, 1);
  CAPTURE(row.fault, run.output, log);
  CHECK(run.status == 128 + row.signal);
  const std::string who = "error: rank 1 on " + hostname() + ", step 5: crashed by " + row.cause;
  CHECK(times(run.output, who) == 1);
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run.output.find("its stack is in " + dir.path() + "/cxtrain_logs/version_0/rank_1.log\n") !=
        std::string::npos);
  CHECK(times(log, who) == 1);
  CHECK(log.find("faulty.so(+0x") != std::string::npos);
}

TEST_CASE("a library that crashes when the process ends does not change the status of a run") {
  const bool has_tool = GENERATE(false, true);
  if (!has_tool && std::filesystem::exists("/etc/ld.so.preload"))
    return skip("this machine preloads a library into every process");
  const TempDir dir;
  const ProgramResult run = run_command(
      std::string("env -u LD_PRELOAD -u LD_AUDIT -u CUDA_INJECTION64_PATH -u OMP_TOOL_LIBRARIES ") +
      (has_tool ? "NVTX_INJECTION64_PATH=profiler.so " : "-u NVTX_INJECTION64_PATH ") + kProgram +
      " --plugin " + CXTRAIN_TEST_PLUGIN_DIR +
      "/crash_at_exit.so --accelerator cpu --max_steps 2 --callbacks.crash_at_exit" + in(dir));
  CAPTURE(has_tool, run.output);
  CHECK(run_json(dir)["status"] == "done");
  // Profilers write their files where libraries are torn down.
  CHECK(run.status == (has_tool ? 128 + SIGABRT : 0));
  CHECK_THAT(run.output, contains("done: 0 epochs, 2 steps"));
}

TEST_CASE("a thread that waits for input does not keep the process from ending") {
  const TempDir dir;
  const std::string silent = dir.file("silent");
  REQUIRE(mkfifo(silent.c_str(), 0600) == 0);
  const ProgramResult run = run_command(
      CXTRAIN_BIN_DIR
          "/cxtrain_mpi --plugin " CXTRAIN_TEST_PLUGIN_DIR
          "/crash_at_exit.so --accelerator cpu --max_steps 2 --callbacks.crash_at_exit.reads true" +
          in(dir) + " <> " + silent,
      60);
  CAPTURE(run.output);
  CHECK(run.status == 0);
}

}  // namespace
}  // namespace cxtrain::test
