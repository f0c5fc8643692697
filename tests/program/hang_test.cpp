#include <mpi.h>

#include <csignal>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/times.h"

/// Ranks that stop, die or go astray: the job ends, and one rank says who it was.
namespace cxtrain::test {
namespace {

const std::string kEndlessRanks =
    " --accelerator cpu --max_epochs -1 --log_every_n_steps 1 --enable_progress_bar false";

std::string mpirun(int ranks) {
  return std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(ranks) + " --oversubscribe --bind-to none " +
         kProgram;
}

TEST_CASE("a rank that is stopped in a step is named once, by one of those that wait for it") {
  struct Row {
    std::string launch;
    int rank;
    int timeout = 5;  // also of the start of spawned ranks
  };
  const Row row = GENERATE(Row{mpirun(2), 0}, Row{mpirun(3), 1}, Row{mpirun(4), 3},
                           Row{kProgram + " --devices 3 --strategy ddp_spawn", 0, 20});
  const TempDir dir;
  RunningProgram program(row.launch + kEndlessRanks + " --timeout_seconds " + std::to_string(row.timeout) +
                         in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  const pid_t process = wait_for_rank(dir, row.rank);
  kill(process, SIGSTOP);
  const ProgramResult run = program.wait();
  CAPTURE(row.launch, row.rank, run.output);
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run.output.find("error: rank " + std::to_string(row.rank) + " (process " + std::to_string(process) +
                        ") on ") != std::string::npos);
  CHECK(run.output.find(" is stopped: rank ") != std::string::npos);
  CHECK(run.output.find(", step ") != std::string::npos);
  if (row.rank != 0) CHECK(run_json(dir)["status"] == "failed");
}

TEST_CASE("a rank that is stopped while the job starts is named as well") {
  const int ranks = GENERATE(2, 3);
  const int delay = GENERATE(0, 150);  // ms
  const TempDir dir;
  RunningProgram program(mpirun(ranks) + kEndlessRanks + " --timeout_seconds 3" + in(dir));
  const pid_t process = wait_for_rank(dir, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  kill(process, SIGSTOP);
  const ProgramResult run = program.wait();
  CAPTURE(ranks, delay, run.output);
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run.output.find("error: rank 1 ") != std::string::npos);
}

TEST_CASE("a rank that dies in a step or while the job starts ends it soon") {
  const int ranks = GENERATE(2, 3, 4);
  const int delay = GENERATE(-1, 0, 5, 50);  // ms after the first row; -1: as soon as there is a process
  const TempDir dir;
  RunningProgram program(mpirun(ranks) + kEndlessRanks + in(dir));
  if (delay >= 0) REQUIRE(becomes_true([&] { return has_rows(dir); }));
  const pid_t process = wait_for_rank(dir, ranks - 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(std::max(delay, 0)));
  kill(process, SIGKILL);
  const ProgramResult run = program.wait(30);
  CAPTURE(ranks, delay, run.output);
  CHECK(run.status == 137);
  // The words are mpirun's. While it still starts ranks (it knows the process as "PID 0") it may leave out
  // the second of its two messages, the one with the signal; the status has it all the same.
  const bool starting = delay < 0;
  // Open MPI 5 may say nothing at all then.
  const bool counted =
      run.output.empty() || run.output.find("1 process returned\na non-zero exit code") != std::string::npos;
  CHECK((run.output.find("signal 9") != std::string::npos || (starting && counted)));
  // The first rank waits for the dead one when it is asked to end, and writes what it knows.
  if (delay >= 0) CHECK(run_json(dir)["status"] == "failed");
}

TEST_CASE("an mpirun that hangs after its ranks have ended is killed") {
  // It has a dead child, of which it takes no notice. In a Slurm job whose srun knows no PMIx, a job with
  // restarts is an mpirun.
  const TempDir dir;
  std::filesystem::create_directory(dir.file("bin"));
  std::filesystem::create_directory(dir.file("hanging"));
  std::filesystem::create_symlink("/bin/sleep", dir.file("hanging/mpirun"));
  dir.write("bin/mpirun", "#!/bin/sh\ntrue &\nexec " + dir.file("hanging/mpirun") + " 1000\n");
  dir.write("bin/srun",
            "#!/bin/bash\nif [ \"$1\" = --mpi=list ]; then echo none; exit; fi\n"
            "while [[ $1 == -* ]]; do shift; done\nexec \"$@\"\n");
  for (const char* name : {"bin/mpirun", "bin/srun"})
    std::filesystem::permissions(dir.file(name), std::filesystem::perms::owner_all);
  const bool in_slurm = GENERATE(false, true);
  const std::string job = in_slurm ? "SLURM_JOB_ID=4712 SLURM_JOB_NUM_NODES=1 " : "";
  const ProgramResult run =
      run_command("PATH=" + dir.file("bin") + ":$PATH " + job + kProgram +
                  " --accelerator cpu --devices 2 --strategy ddp --max_epochs 1 --max_restarts " +
                  (in_slurm ? "1" : "0") + in(dir));
  CAPTURE(in_slurm, run.output);
  CHECK(run.status == 137);
  CHECK(times(run.output, "mpirun hangs although all of its ranks have ended") == (in_slurm ? 2 : 1));
}

TEST_CASE("an mpirun that crashes after its ranks have ended leaves the status of the ranks") {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("bin"));
  dir.write("bin/mpirun", "#!/bin/bash\nPATH=${PATH#*:}\nmpirun \"$@\"\nkill -SEGV $$\n");
  std::filesystem::permissions(dir.file("bin/mpirun"), std::filesystem::perms::owner_all);
  const bool refused = GENERATE(false, true);
  const ProgramResult run = run_command("PATH=" + dir.file("bin") + ":$PATH " + kProgram +
                                        " --accelerator cpu --devices 2 --strategy ddp --max_steps 2" +
                                        (refused ? " --ckpt_path last" : "") + in(dir));
  CAPTURE(refused, run.output);
  CHECK(run.status == (refused ? 2 : 0));
}

TEST_CASE("a spawned rank that dies at any time is missed, and signals are heard meanwhile") {
  const int delay = GENERATE(0, 100, 400);  // ms
  const TempDir dir;
  RunningProgram program(kProgram + " --devices 2 --strategy ddp_spawn" + kEndlessRanks + in(dir));
  const pid_t process = wait_for_rank(dir, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(delay));
  if (delay == 0) program.send(SIGSTOP);  // else the program could see the end before the signal
  kill(process, SIGKILL);
  if (delay == 0) {
    program.send(SIGTERM);
    program.send(SIGCONT);
  }
  // The MPI_Comm_spawn of Open MPI 5 does not return when a rank dies before the rank has started MPI: the
  // supervisor's deadline for the start, 60 s, ends the job.
  constexpr int kDeadline = OMPI_MAJOR_VERSION >= 5 ? 90 : 40;
  const ProgramResult run = program.wait(kDeadline);
  CAPTURE(delay, run.output);
  CHECK(run.status == (delay == 0 ? 143 : 1));
}

TEST_CASE("MPI that cannot start ranks ends ddp_spawn with a cause") {
  const TempDir dir;
  const ProgramResult run = run_command(
      "ulimit -n 32; " + kProgram + " --devices 2 --strategy ddp_spawn --timeout_seconds 4" + in(dir), 60);
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK(times(run.output, "error: ") == 1);
}

TEST_CASE("ranks with different options are told so at the start, by name and value") {
  const TempDir dir;
  const ProgramResult run = run_two_ranks(dir, in(dir) + "--max_epochs 1 --callbacks.lr_monitor",
                                          in(dir) + "--max_epochs 2 --optimizer.lr 0.5");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK(times(run.output, "error: ") == 1);
  CHECK_THAT(run.output, contains(code(MessageCode::different_options)) &&
                             contains("trainer.max_epochs: rank 0 has 1, rank 1 has 2") &&
                             contains("optimizer.lr: rank 0 has none, rank 1 has 0.5") &&
                             contains("callbacks.lr_monitor: rank 0 has true, rank 1 has none"));
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/cxtrain_logs"));
}

TEST_CASE("ranks with different data are told so before the first step") {
  const TempDir dir;
  const auto digits = [](int images) {
    std::string text;
    for (int image = 0; image < images; ++image) {
      for (int pixel = 0; pixel < 64; ++pixel) text += "7,";
      text += std::to_string(image % 10) + "\n";
    }
    return text;
  };
  const std::string from = in(dir) + "--data.path ";
  const ProgramResult run = run_two_ranks(dir, from + dir.write("long.csv", digits(900)),
                                          from + dir.write("short.csv", digits(100)));
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK(times(run.output, "error: ") == 1);
  CHECK_THAT(run.output, contains(code(MessageCode::different_options)) && contains("--data: ") &&
                             contains("rank 0 has training: ") && contains("rank 1 has training: "));
}

}  // namespace
}  // namespace cxtrain::test
