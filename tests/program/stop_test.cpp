#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// Programs that are stopped, from outside or by what they write to, lose nothing.
namespace cxtrain::test {
namespace {

/// Without validations, in which SIGTERM leaves no time to come to a place where the state can be saved.
const std::string kEndlessUnsaved =
    " --accelerator cpu --max_epochs -1 --log_every_n_steps 1 --timeout_seconds 60 --limit_val_batches 0";

std::string run_folder(const TempDir& dir) { return dir.path() + "/cxtrain_logs/version_0/"; }

int lines_with(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  int found = 0;
  for (std::string line; std::getline(lines, line);) found += line.find(part) != std::string::npos ? 1 : 0;
  return found;
}

TEST_CASE("SIGINT and SIGTERM end a run at a step, with its files and one line") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  const std::string launch = GENERATE("", " --devices 2 --strategy ddp_spawn");
  const TempDir dir;
  RunningProgram program(kProgram + kEndlessUnsaved + launch + in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  program.send(signal);
  const ProgramResult run = program.wait();
  CAPTURE(launch, run.output);
  const int expected = signal == SIGTERM ? 75 : 130;  // whoever sits at the terminal wants no restart
  CHECK(run.status == expected);
  CHECK(lines_with(run.output, signal == SIGINT ? "stopped by SIGINT" : "stopped by SIGTERM") == 1);
  CHECK(lines_with(run.output, signal == SIGINT ? "another SIGINT" : "another SIGTERM") == 1);
  const auto json = run_json(dir);
  CHECK(json["status"] == "stopped");
  CHECK(json["exit_code"] == expected);
  int checkpoints_of_the_end = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder(dir) + "checkpoints")) {
    const std::string step = "-step=" + std::to_string(json["global_step"].get<std::int64_t>()) + ".ckpt";
    checkpoints_of_the_end += entry.path().string().ends_with(step) ? 1 : 0;
  }
  CHECK(checkpoints_of_the_end == 1);
  const std::string metrics = slurp(run_folder(dir) + "metrics.csv");
  CHECK(metrics.ends_with("\n"));
  // Every step has a row, an end of an epoch another one.
  CHECK(std::count(metrics.begin(), metrics.end(), '\n') > json["global_step"].get<std::int64_t>());
}

TEST_CASE("under mpirun, which gives its ranks a second, a signal loses nothing either") {
  const std::string launch =
      GENERATE(std::string(CXTRAIN_MPIEXEC) + " -np 2 --oversubscribe --bind-to none " + kProgram,
               kProgram + " --devices 2");
  const TempDir dir;
  RunningProgram program(launch + kEndlessUnsaved + in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  program.send(SIGINT);
  const ProgramResult run = program.wait();
  CAPTURE(launch, run.output);
  CHECK(run.status != 0);
  CHECK(run_json(dir)["status"] == "stopped");
}

TEST_CASE("an evaluation hears of a signal as well") {
  const TempDir dir;
  RunningProgram program(kProgram +
                         " validate --accelerator cpu --model simple --model.in 4000 --model.out 4000 " +
                         "--model.samples 2000 --data.batch_size 1" + in(dir));
  const std::string log = run_folder(dir) + "rank_0.log";
  REQUIRE(becomes_true([&] { return slurp(log).find("writing to") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  program.send(SIGTERM);
  const ProgramResult run = program.wait(20);
  CAPTURE(run.output);
  CHECK(run.status == 143);
}

TEST_CASE("a signal while a program starts ends it soon") {
  const TempDir dir;
  const std::string launch = GENERATE("", " --devices 2 --strategy ddp_spawn");
  RunningProgram program(kProgram + kEndlessUnsaved + launch + in(dir));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  program.send(SIGINT);
  const ProgramResult run = program.wait(30);
  CAPTURE(launch, run.output);
  CHECK(run.status == 130);
}

TEST_CASE("a run whose folder is deleted says so once, goes on and ends well") {
  const TempDir dir;
  RunningProgram program(kProgram + " --accelerator cpu --max_steps 3000 --log_every_n_steps 1" + in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  // The program may be putting a file there at this very moment.
  std::error_code busy;
  REQUIRE(
      becomes_true([&] { return std::filesystem::remove_all(dir.path() + "/cxtrain_logs", busy), !busy; }));
  const ProgramResult run = program.wait();
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(lines_with(run.output, "metrics cannot") == 1);
  CHECK(lines_with(run.output, "rows of metrics") == 1);
  CHECK(lines_with(run.output, "done: ") == 1);
}

TEST_CASE("a limit on the size of files costs the rows beyond it, not the run") {
  const TempDir dir;
  const ProgramResult run = run_command(
      "ulimit -f 8; " + kProgram + " --accelerator cpu --max_steps 3000 --log_every_n_steps 1" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(run.output.find("File too large") != std::string::npos);
  CHECK(lines_with(run.output, "rows of metrics") == 1);
}

TEST_CASE("a console that nobody reads, or that is closed, costs nothing but the words") {
  const std::string console = GENERATE(">/dev/full 2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-", "2>&1 | true");
  const TempDir dir;
  const ProgramResult run =
      run_command("set -o pipefail; " + kProgram + " --accelerator cpu --max_steps 60 --log_every_n_steps 1" +
                  in(dir) + console);
  CAPTURE(console, run.output);
  CHECK(run.status == 0);
  CHECK(run_json(dir)["status"] == "done");
  const std::string rows = slurp(run_folder(dir) + "metrics.csv");
  CHECK(rows.find_first_not_of("0123456789.,-+\n_abcdefghijklmnopqrstuvwxyz") == std::string::npos);
  CHECK(rows.find("writing to") == std::string::npos);
  CHECK(slurp(run_folder(dir) + "metrics.jsonl").find("\n\n") == std::string::npos);
}

TEST_CASE("an answer that cannot be written is a failure") {
  for (const char* question : {"--help", "--version", "--print_config", "plan", "info"}) {
    CAPTURE(question);
    const ProgramResult full = run_command(kProgram + " " + question + " >/dev/full");
    CHECK(full.status == 1);
    CHECK(full.output.find("No space left on device") != std::string::npos);
  }
  CHECK(run_command(kProgram + " --help | true; exit ${PIPESTATUS[0]}").output.empty());
}

TEST_CASE("an error leaves what is known of the run") {
  const TempDir dir;
  const ProgramResult run = run_ranks(
      2, kFaulty + "--model.rank 0" + " --log_every_n_steps 1 --max_epochs 50 --accelerator cpu" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  const auto json = run_json(dir);
  CHECK(json["status"] == "failed");
  CHECK(json["exit_code"] == 1);
  CHECK(json["global_step"] == 5);
}

TEST_CASE("a folder that no longer exists is no place to start from") {
  const TempDir dir;
  const ProgramResult run =
      run_command("mkdir " + dir.file("gone") + " && cd " + dir.file("gone") + " && rmdir " +
                  dir.file("gone") + " && " + kProgram + " --max_steps 1");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains(code(MessageCode::file_failed)) && contains("current folder"));
}

}  // namespace
}  // namespace cxtrain::test
