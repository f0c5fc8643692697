#include <algorithm>
#include <csignal>
#include <filesystem>
#include <random>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/run_program.h"
#include "support/running_program.h"

/// `--max_restarts`, and whose a run's folder is.
namespace cxtrain::test {
namespace {

namespace fs = std::filesystem;

/// A fit of the built-in example that starts its ranks itself, and whose checkpoints come often.
std::string restarted(const TempDir& dir, int ranks, const std::string& options) {
  return kProgram + " fit --accelerator cpu --enable_progress_bar false --devices " + std::to_string(ranks) +
         " --data.batch_size " + std::to_string(48 / ranks) +
         " --log_every_n_steps 5 --checkpoint.every_n_train_steps 10 --default_root_dir " + dir.path() + " " +
         options;
}

nlohmann::json restarted_end(const TempDir& dir) {
  // A job that died before its first checkpoint began anew, in a folder of its own.
  for (int number = 20; number > 0; --number) {
    const std::string file = dir.path() + "/cxtrain_logs/version_" + std::to_string(number) + "/run.json";
    if (fs::exists(file)) return nlohmann::json::parse(slurp(file));
  }
  return run_json(dir);
}

/// The processes of a run that train; of one rank, which nobody else has started: all but the first.
std::vector<pid_t> ranks_of(const TempDir& dir, int ranks, pid_t first) {
  std::vector<pid_t> found = processes_of(dir);
  std::erase_if(found, [&](pid_t process) {
    if (ranks == 1) return process == first;
    return environment_of(process).find("OMPI_COMM_WORLD_RANK=") == std::string::npos;
  });
  return found;
}

bool has_checkpoint(const TempDir& dir) { return newest_checkpoint(dir.path()).step >= 0; }

TEST_CASE("a job that is killed again and again ends with the bits of an undisturbed one", "[restarts]") {
  const auto [ranks, chosen] = GENERATE(
      table<int, std::string>({{1, "single"}, {2, "ddp"}, {3, "ddp_spawn"}, {2, "zero"}, {2, "pipeline"}}));
  CAPTURE(ranks, chosen);
  const TempDir text;
  std::string strategy = "--strategy " + chosen + " ";
  if (chosen == "pipeline") {
    strategy +=
        "--accumulate_grad_batches 2 --model gpt --model.width 32 --model.layers 2 --model.context 8 "
        "--model.sample_bytes 0 --data.path " +
        text.write("text", text_of_squares()) + " ";
  }
  const TempDir calm, dir;
  const std::string options = strategy + "--max_epochs 100 --seed 3 --resume_from_checkpoint auto ";
  REQUIRE(run_command(restarted(calm, ranks, options)).status == 0);
  RunningProgram program(restarted(dir, ranks, options + "--max_restarts 9"));
  std::mt19937 random(ranks);
  int step = -1;  // that it has come to before each kill, or it would be given up
  for (int kills = 0; kills < 3; ++kills) {
    std::vector<pid_t> victims;
    const auto others = [&, ranks = ranks] {
      victims = ranks_of(dir, ranks, program.process());
      return static_cast<int>(victims.size()) >= ranks && newest_checkpoint(dir.path()).step > step;
    };
    if (!becomes_true([&] { return others() || program.has_ended(); })) break;
    if (program.has_ended()) break;
    step = newest_checkpoint(dir.path()).step;
    kill(victims[random() % victims.size()], SIGKILL);
    becomes_true([&] {
      const auto now = processes_of(dir);
      return std::none_of(now.begin(), now.end(), [&](pid_t each) {
        return std::find(victims.begin(), victims.end(), each) != victims.end();
      });
    });
  }
  const ProgramResult result = program.wait(200);
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, test::contains("restart 1 of 9"));
  CHECK_THAT(result.output, test::contains("are kept"));
  const nlohmann::json end = restarted_end(dir), expected = run_json(calm);
  CHECK(end["status"] == "done");
  CHECK(end["parameters_sha256"] == expected["parameters_sha256"]);
  CHECK(end["metrics"] == expected["metrics"]);
  CHECK(processes_of(dir).empty());
}

/// Returns options of a job of `ranks` ranks. Rank `rank` fails at the checkpoint after step `step`, in every
/// attempt.
std::string fragile(int rank, int ranks, int step, bool dies = true) {
  return std::string("--plugin ") + CXTRAIN_TEST_PLUGIN_DIR + "/fragile.so --callbacks.fragile.rank " +
         std::to_string(rank) + " --callbacks.fragile.ranks " + std::to_string(ranks) +
         " --callbacks.fragile.step " + std::to_string(step) + " --callbacks.fragile.dies " +
         (dies ? "true" : "false");
}

TEST_CASE("a job that fails at the same step again and again is given up with 93", "[restarts]") {
  const bool dies = GENERATE(true, false);
  const TempDir dir;
  const ProgramResult result =
      run_command(restarted(dir, 2,
                            "--max_epochs 200 --max_restarts 50 --checkpoint.save_top_k -1 "
                            "--checkpoint.every_n_train_steps 1000 " +
                                fragile(1, 2, 3000, dies)));
  INFO(result.output);
  CHECK(result.status == 93);
  CHECK_THAT(result.output, test::contains("rank 1") && test::contains("restart 1 of 50, from step 2000"));
  CHECK_THAT(result.output, test::contains("restart 2 of 50") && test::contains("before the newest"));
  CHECK_THAT(result.output, test::contains("3 times since the checkpoint of step 2000"));
  CHECK_THAT(result.output, !test::contains("restart 3"));
}

TEST_CASE("a rank that always fails is left out, and the steps keep their samples", "[restarts]") {
  const TempDir calm, dir;
  REQUIRE(run_command(restarted(calm, 2, "--max_epochs 20 --seed 3")).status == 0);
  const ProgramResult result =
      run_command(restarted(dir, 4,
                            "--max_epochs 20 --seed 3 --max_restarts 50 --min_ranks 2 "
                            "--checkpoint.every_n_train_steps 250 " +
                                fragile(2, 4, 500)));
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.output,
             test::contains("rank 2") && test::contains("step 250") && test::contains("3 ranks"));
  const nlohmann::json end = restarted_end(dir), expected = run_json(calm);
  CHECK(end["world_size"] == 3);
  CHECK(end["global_step"] == expected["global_step"]);
  CHECK(end["metrics"]["val_loss"].get<double>() ==
        Approx(expected["metrics"]["val_loss"].get<double>()).epsilon(1e-2));
}

TEST_CASE("signals to the one that starts a job again reach the job, which is not started again",
          "[restarts]") {
  struct Row {
    int signal, status;
  };
  const Row row = GENERATE(Row{SIGUSR1, 75}, Row{SIGINT, -1}, Row{SIGTERM, -1});
  const TempDir dir;
  RunningProgram program(restarted(dir, 2, "--max_epochs 100000 --max_restarts 5"));
  REQUIRE(becomes_true([&] { return has_checkpoint(dir); }));
  program.send(row.signal);
  const ProgramResult result = program.wait(200);
  INFO(result.output);
  // mpirun's own, which depends on what its ranks came to in the second that it gives them.
  CHECK((row.status < 0 ? result.status != 124 : result.status == row.status));
  CHECK_THAT(result.output, !test::contains("restart 1"));
  CHECK(processes_of(dir).empty());
}

TEST_CASE("a job whose starter is killed ends", "[restarts]") {
  const TempDir dir;
  RunningProgram program(restarted(dir, 2, "--max_epochs 100000 --max_restarts 5"));
  REQUIRE(becomes_true([&] { return has_checkpoint(dir); }));
  program.send(SIGKILL);
  CHECK(becomes_true([&] { return processes_of(dir).empty(); }));
}

TEST_CASE("of two jobs that go on in one folder the second is refused", "[restarts]") {
  const TempDir dir;
  // It removes none, so that the second finds one whole.
  RunningProgram first(restarted(dir, 1, "--max_epochs 100000 --checkpoint.save_top_k -1 "));
  REQUIRE(becomes_true([&] { return has_checkpoint(dir); }));
  const ProgramResult second =
      run_command(restarted(dir, 1, "--max_epochs 100000 --ckpt_path auto --timeout_seconds 4"));
  INFO(second.output);
  CHECK(second.status == 2);
  CHECK_THAT(second.output, test::contains(test::code(MessageCode::run_in_use)) &&
                                test::contains("process " + std::to_string(first.process()) + " on "));
  CHECK_FALSE(first.has_ended());
  first.send(SIGUSR1);
  CHECK(first.wait(200).status == 75);
  CHECK(run_command(restarted(dir, 1,
                              "--max_steps 100000 --max_time 00:00:00:01 --ckpt_path " + dir.path() +
                                  "/cxtrain_logs/version_0"))
            .status == 0);
}

TEST_CASE("restarts are refused where nobody could start the job again", "[restarts]") {
  const ProgramResult launched = run_ranks(2, "--max_restarts 3 --accelerator cpu");
  CHECK(launched.status == 2);
  CHECK_THAT(launched.output,
             test::contains(test::code(MessageCode::wrong_ranks)) && test::contains("mpirun"));
  CHECK_THAT(launched.output, test::contains("--devices 2"));
  CHECK_THAT(run_program("--min_ranks 1").output, test::contains("add --max_restarts N"));
  CHECK_THAT(run_program("--accelerator cpu --devices 2 --strategy pipeline --model digits --max_restarts 1 "
                         "--min_ranks 1")
                 .output,
             test::contains("which divides the layers"));
  CHECK_THAT(run_program("--max_restarts -1").output, test::contains("max_restarts"));
}

}  // namespace
}  // namespace cxtrain::test
