#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "cxtrain/base/process.h"
#include "cxtrain/data/data_file.h"
#include "support/catch.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/skip.h"
#include "support/times.h"

/// Machines that do not behave: data that go away, memory that ends, folders that may not be written, storage
/// that hangs, clocks that jump. A run goes on where it can, and else says what it was and loses nothing.
namespace cxtrain::test {
namespace {

namespace fs = std::filesystem;

const std::string kQuietFit = "fit --accelerator cpu --enable_progress_bar false ";

std::string on_ranks(int ranks, const std::string& more = "") {
  if (ranks == 1) return kProgram + " ";
  return std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(ranks) + " --oversubscribe --bind-to none " +
         more + " " + kProgram + " ";
}

std::string run_of(const TempDir& dir) { return dir.path() + "/cxtrain_logs/version_0"; }

/// The newest checkpoint's folder; empty where there is none.
std::string newest(const TempDir& dir) { return newest_checkpoint(run_of(dir)).path; }

bool is_whole(const std::string& checkpoint) {
  return run_program("checkpoint verify " + checkpoint).status == 0;
}

TEST_CASE("a data file that shrinks or goes away while a run trains changes nothing in it") {
  const bool goes_away = GENERATE(false, true);
  const int ranks = GENERATE(1, 2);
  const std::string digits = read_file(CXTRAIN_SOURCE_DIR "/.deps/data/digits.csv.gz");
  const TempDir undisturbed, dir;
  const auto command = [&](const TempDir& into, const std::string& data) {
    return on_ranks(ranks) + kQuietFit + "--max_epochs 12 --log_every_n_steps 1 --data.path " + data +
           in(into);
  };
  REQUIRE(run_command(command(undisturbed, undisturbed.write("digits.csv", digits))).status == 0);
  const std::string data = dir.write("digits.csv", digits);
  RunningProgram program(command(dir, data));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  if (goes_away) {
    fs::remove(data);
  } else {
    fs::resize_file(data, 100);
  }
  CHECK_FALSE(program.has_ended());
  const ProgramResult run = program.wait();
  CAPTURE(goes_away, ranks, run.output);
  CHECK(run.status == 0);
  CHECK(run_json(dir)["parameters_sha256"] == run_json(undisturbed)["parameters_sha256"]);
}

TEST_CASE("memory that ends on one rank ends the job with one message, and leaves the checkpoint") {
  const int ranks = GENERATE(2, 3);
  const TempDir dir;
  const std::string model = kFaulty +
                            "--max_epochs 1 --limit_train_batches 300 "
                            "--log_every_n_steps 1 --checkpoint.every_n_train_steps 20 ";
  const ProgramResult run = run_command(on_ranks(ranks) + kQuietFit + model +
                                        "--model.fault memory --model.rank 1 --model.step 150" + in(dir));
  CAPTURE(ranks, run.output);
  CHECK(run.status == 1);
  const std::regex message("error: rank 1 on " + hostname() +
                           ", epoch 0, step 150: [^\\n]*\\[out-of-memory\\]");
  CHECK(std::regex_search(run.output, message));
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run_json(dir)["status"] == "failed");
  const std::string saved = newest(dir);
  REQUIRE(!saved.empty());
  CHECK(is_whole(saved));
  const ProgramResult again =
      run_command(on_ranks(ranks) + kQuietFit + model + "--model.fault none --ckpt_path auto" + in(dir));
  CAPTURE(again.output);
  CHECK(again.status == 0);
  CHECK_THAT(again.output, contains("resuming from " + saved));
}

/// The beginning of a command that may not write everywhere: root without the capabilities to pass over
/// permissions, and any other user as such. Root stays the owner of its files, so that a checkout below a
/// folder of mode 700 can be entered. Empty where it cannot be had.
std::string without_privileges() {
  if (geteuid() != 0) return "env ";
  const std::string command =
      "setpriv --inh-caps -dac_override,-dac_read_search --bounding-set -dac_override,-dac_read_search ";
  return run_command(command + kProgram + " --version").status == 0 ? command : "";
}

TEST_CASE("a folder that may not be written is told before the run begins") {
  if (without_privileges().empty()) return skip("root cannot be rid of its privileges here");
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                                  fs::perms::others_exec);
  const ProgramResult run =
      run_command(without_privileges() + kProgram + " " + kQuietFit + "--max_epochs 1" + in(dir));
  fs::permissions(dir.path(), fs::perms::owner_all);
  CAPTURE(run.output);
  CHECK((run.status == 1 || run.status == 2));
  CHECK_THAT(run.output, contains("Permission denied"));
  CHECK(times(run.output, "error: ") == 1);
}

TEST_CASE("a folder that may not be written any more costs checkpoints, not the run") {
  if (without_privileges().empty()) return skip("root cannot be rid of its privileges here");
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms::all);
  RunningProgram program(without_privileges() + kProgram + " " + kQuietFit +
                         "--max_epochs 40 --checkpoint.every_n_train_steps 10 --log_every_n_steps 1" +
                         in(dir));
  REQUIRE(becomes_true([&] { return !newest(dir).empty(); }));
  const std::string folder = run_of(dir) + "/checkpoints";
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  const ProgramResult run = program.wait();
  fs::permissions(folder, fs::perms::all);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK(run_json(dir)["status"] == "done");
  CHECK_THAT(run.output, contains("no checkpoint was written") && contains("Permission denied"));
  REQUIRE(!newest(dir).empty());
  CHECK(is_whole(newest(dir)));
}

const std::string kOddSystem = std::string(CXTRAIN_TEST_PLUGIN_DIR) + "/odd_system.so";

/// A fit of a small GPT on two ranks that share memory in this way (odd_system.cpp).
ProgramResult fit_sharing(const std::string& how, const std::string& strategy, const TempDir& dir) {
  return run_command(on_ranks(2, "-x LD_PRELOAD=" + kOddSystem + " -x CXTRAIN_TEST_SHARED=" + how) +
                     kQuietFit +
                     "--max_steps 4 --model gpt --model.width 256 --model.layers 2 --model.context 16 "
                     "--data.batch_size 2 --limit_val_batches 0 --data.path " +
                     dir.write("text", text_of_squares()) + " --strategy " + strategy + in(dir));
}

TEST_CASE("ranks that can share little memory, or none, train to the same bits, or say what is missing") {
  for (const char* strategy : {"ddp", "zero --strategy.stage 2", "zero", "zero --strategy.parameters all",
                               "pipeline --accumulate_grad_batches 2"}) {
    const TempDir anonymous, files, little, none;
    CAPTURE(strategy);
    const ProgramResult usual = fit_sharing("", strategy, anonymous);
    CAPTURE(usual.output);
    REQUIRE(usual.status == 0);
    const auto hash = run_json(anonymous)["parameters_sha256"];
    const ProgramResult in_files = fit_sharing("files", strategy, files);
    CAPTURE(in_files.output);
    REQUIRE(in_files.status == 0);
    CHECK(run_json(files)["parameters_sha256"] == hash);

    const ProgramResult with_little = fit_sharing("little", strategy, little);
    CAPTURE(with_little.output);
    if (with_little.status == 0) {
      CHECK(run_json(little)["parameters_sha256"] == hash);
    } else {
      CHECK(with_little.status == 2);
      CHECK_THAT(with_little.output, contains("--strategy.parameters all"));
    }
    CHECK((with_little.status == 0) == (strategy != std::string("zero")));

    const ProgramResult without = fit_sharing("none", strategy, none);
    CAPTURE(without.output);
    CHECK(without.status != 0);
    CHECK_THAT(without.output, contains("/dev/shm"));
  }
}

/// A run on storage that hangs while there is the file `hang`.
std::string on_hanging_storage(int ranks, const TempDir& dir, const std::string& options) {
  const std::string hang = "CXTRAIN_TEST_HANG=" + dir.file("hang");
  const std::string launch = ranks == 1 ? "env LD_PRELOAD=" + kOddSystem + " " + hang + " " + kProgram + " "
                                        : on_ranks(ranks, "-x LD_PRELOAD=" + kOddSystem + " -x " + hang);
  return launch + kQuietFit + options + "--log_every_n_steps 1 --checkpoint.every_n_train_steps 100 " +
         in(dir);
}

/// Seconds that the checkpoint of a step took, and that training stood still for it; of rank 0's log.
std::pair<double, double> seconds_of_save(const TempDir& dir, int step) {
  const std::string log = slurp(run_of(dir) + "/rank_0.log");
  const std::regex line("-step=" + std::to_string(step) +
                        "\\.ckpt: [0-9.]+ MB in ([0-9.]+) s, .*; training stood still for ([0-9.]+) s");
  std::smatch found;
  if (!std::regex_search(log, found, line)) return {-1, -1};
  return {std::stod(found[1]), std::stod(found[2])};
}

TEST_CASE("storage that hangs for a while holds up the next checkpoint, and nothing before it") {
  const int ranks = GENERATE(1, 2);
  const TempDir undisturbed, dir;
  const std::string options = "--max_epochs 6 --data.batch_size 16 ";
  REQUIRE(run_command(on_hanging_storage(ranks, undisturbed, options)).status == 0);
  dir.write("hang", "");
  RunningProgram program(on_hanging_storage(ranks, dir, options));
  const std::string folder = run_of(dir) + "/checkpoints";
  const auto names = [&] {
    std::string all;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing))
      all += entry.path().filename().string() + " ";
    return all;
  };
  REQUIRE(becomes_true([&] { return names().find("-step=100.ckpt.part") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  CHECK(!program.has_ended());
  CHECK_THAT(names(), contains("-step=100.ckpt.part") && !contains("-step=200.ckpt"));
  fs::remove(dir.file("hang"));
  const ProgramResult run = program.wait();
  CAPTURE(ranks, run.output);
  CHECK(run.status == 0);
  CHECK(run_json(dir)["parameters_sha256"] == run_json(undisturbed)["parameters_sha256"]);
  CHECK(is_whole(newest(dir)));
  // The first was written while training went on, up to where the second was due and waited for it.
  CHECK(seconds_of_save(dir, 100).first > 2);
  CHECK(seconds_of_save(dir, 100).second < 1);
}

TEST_CASE("storage that hangs for ever ends the job in time, names itself, and the checkpoint before stays") {
  const int ranks = GENERATE(1, 2);
  const TempDir dir;
  RunningProgram program(on_hanging_storage(ranks, dir, "--max_epochs -1 --timeout_seconds 3 "));
  REQUIRE(becomes_true([&] { return !newest(dir).empty() || program.has_ended(); }));
  dir.write("hang", "");
  const ProgramResult run = program.wait(40);
  CAPTURE(ranks, run.output);
  CHECK(run.status == 1);
  CHECK_THAT(run.output, contains("writing a checkpoint"));
  CHECK(times(run.output, "error: ") == 1);
  CHECK(run_json(dir)["status"] == "failed");
  fs::remove(dir.file("hang"));
  const std::string saved = newest(dir);
  REQUIRE(!saved.empty());
  CHECK(is_whole(saved));
}

TEST_CASE("a clock on the wall that jumps by years decides nothing") {
  const int ranks = GENERATE(1, 2);
  const TempDir undisturbed, dir;
  const auto run = [&](const TempDir& into, bool jumps, int epochs) {
    const std::string environment =
        ranks == 1 ? "env LD_PRELOAD=" + kOddSystem + " CXTRAIN_TEST_CLOCK=1 " + kProgram + " "
                   : on_ranks(ranks, "-x LD_PRELOAD=" + kOddSystem + " -x CXTRAIN_TEST_CLOCK=1");
    return run_command((jumps ? environment : on_ranks(ranks)) + kQuietFit +
                       "--checkpoint.every_n_train_steps 7 --checkpoint.save_top_k -1 --max_time 01:00:00:00 "
                       "--timeout_seconds 20 --log_every_n_steps 5 --ckpt_path auto --max_epochs " +
                       std::to_string(epochs) + in(into));
  };
  REQUIRE(run(undisturbed, false, 3).status == 0);
  for (const int epochs : {1, 2, 3}) {
    const ProgramResult jumping = run(dir, true, epochs);
    CAPTURE(ranks, epochs, jumping.output);
    REQUIRE(jumping.status == 0);
  }
  CHECK(run_json(dir)["parameters_sha256"] == run_json(undisturbed)["parameters_sha256"]);
  CHECK(slurp(run_of(dir) + "/metrics.csv") == slurp(run_of(undisturbed) + "/metrics.csv"));
}

}  // namespace
}  // namespace cxtrain::test
