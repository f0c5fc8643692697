#include "cxtrain/base/process.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/run_program.h"

/// What a run finds out about its ranks while it trains: one that is slower, or holds other parameters.
namespace cxtrain::test {
namespace {

std::string with_fault(const std::string& fault) {
  return kFaulty + "--accelerator cpu --enable_progress_bar false --model.fault " + fault + " ";
}

bool has(const ProgramResult& run, const std::string& part) {
  return run.output.find(part) != std::string::npos;
}

TEST_CASE("a rank that is slower than the other is named with the time that is lost, and only such a one") {
  const bool slow = GENERATE(true, false);
  const TempDir dir;
  const ProgramResult run =
      run_ranks(2, with_fault("slow") + "--max_steps 110 --model.rank " + (slow ? "1" : "7") + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 0);
  const std::string told = "warning: rank 1 on " + hostname() + " is slower than the other ranks: ";
  CHECK(has(run, told) == slow);
  CHECK(has(run, "is slower than") == slow);
  if (!slow) return;
  const int percent = std::stoi(run.output.substr(run.output.find(told) + told.size()));
  CHECK(percent > 20);  // a third, where nothing else takes time
  CHECK(percent < 40);
}

TEST_CASE("one flipped bit of one rank's weights ends the run, which names that rank") {
  const TempDir dir;
  const std::string check = "--callbacks.divergence_check.every_n_train_steps 4 --max_steps 20 ";
  const ProgramResult run = run_ranks(3, with_fault("flip --model.rank 1") + check + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 1);
  CHECK_THAT(run.output, contains("error: ") && contains(code(MessageCode::ranks_diverged)) &&
                             contains("step 8: ") && contains("rank 1 on " + hostname()) &&
                             contains("layer.weight"));
  CHECK(run.output.find("error: ") == run.output.rfind("error: "));
}

TEST_CASE("of two ranks that differ both are named; ranks that do not differ go on") {
  const bool flipped = GENERATE(true, false);
  const TempDir dir;
  const std::string check = "--callbacks.divergence_check.every_n_train_steps 1 --max_steps 8 ";
  const ProgramResult run = run_ranks(2, with_fault(flipped ? "flip" : "none") + check + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == (flipped ? 1 : 0));
  CHECK(has(run, code(MessageCode::ranks_diverged)) == flipped);
  CHECK(has(run, "step 6: rank 0 on " + hostname() + " and rank 1 on " + hostname()) == flipped);
  CHECK(has(run, "layer.weight") == flipped);
}

TEST_CASE("a rank whose model returns no loss is told on the console, once") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, with_fault("no_loss --model.rank 1") + "--max_steps 20" + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == 0);
  const std::string told = "training_step of another rank returned no loss in epoch ";
  CHECK(has(run, told));
  CHECK(run.output.find(told) == run.output.rfind(told));
  CHECK(slurp(dir.path() + "/cxtrain_logs/version_0/rank_1.log").find("the batch is skipped") !=
        std::string::npos);
}

TEST_CASE("a loss that explodes on one rank is told, with the rank and the steps, or ends the run") {
  const std::string stop = GENERATE("false", "true");
  const TempDir dir;
  const ProgramResult run = run_ranks(2, with_fault("spike --model.rank 1 --model.step 60") +
                                             "--max_steps 80 --callbacks.loss_spike.stop " + stop + in(dir));
  CAPTURE(run.output);
  CHECK(run.status == (stop == "true" ? 1 : 0));
  // A warning of one rank is in its log.
  const std::string told =
      stop == "true" ? run.output : slurp(dir.path() + "/cxtrain_logs/version_0/rank_1.log");
  CHECK_THAT(told, contains(stop == "true" ? "error: " : "warning: "));
  CHECK_THAT(told, contains("rank 1 on " + hostname()) && contains("steps 61 to 63"));
  CHECK_FALSE(has(run, "the loss of rank 0"));
}

}  // namespace
}  // namespace cxtrain::test
