#include <algorithm>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/run_program.h"

/// The example `simple` as its users run it: on GPUs as tests/config/simple_runs_test.cpp plans it; here on
/// the CPU, for real, and on a machine that has none of the GPUs that were asked for.
namespace cxtrain::test {
namespace {

ProgramResult run_simple(const std::string& options, const TempDir& dir) {
  return run_program(
      "--model simple --max_epochs 1 --limit_train_batches 1 --limit_val_batches 1 --num_sanity_val_steps 0 "
      "--data.batch_size 8 --model.samples 32 --model.out 1280 --default_root_dir " +
      dir.path() + " " + options);
}

TEST_CASE("simple on the CPU in the ways in which its users run it on GPUs") {
  struct Row {
    std::string options, strategy, precision;
    int ranks;
    std::string says;  ///< on the console
  };
  const Row row = GENERATE(values<Row>({
      {"--accelerator cpu --devices 1", "single", "32-true", 1, ""},
      {"--gpus 0", "single", "32-true", 1, ""},
      {"--accelerator cpu --devices 2", "ddp", "32-true", 2, ""},
      {"--accelerator cpu --devices 2 --strategy ddp", "ddp", "32-true", 2, ""},
      {"--accelerator cpu --devices 1 --strategy ddp", "ddp", "32-true", 1, ""},
      {"--accelerator cpu --precision 16", "single", "bf16-mixed", 1, "bf16-mixed is used"},
      {"--accelerator cpu --precision 32", "single", "32-true", 1, ""},
  }));
  const TempDir dir;
  const ProgramResult run = run_simple(row.options, dir);
  CAPTURE(row.options, run.output);
  REQUIRE(run.status == 0);
  CHECK(run.output.find(row.says) != std::string::npos);
  CHECK((run.output.find("warning") != std::string::npos) == !row.says.empty());
  const auto json = run_json(dir);
  CHECK(json["strategy"] == row.strategy);
  CHECK(json["precision"] == row.precision);
  CHECK(json["world_size"] == row.ranks);
  CHECK(json["global_step"] == 1);
  CHECK(json["metrics"].contains("val_loss"));
}

TEST_CASE("GPUs that the machine does not have are refused once, with what was asked and what there is") {
  const std::string options =
      GENERATE("--gpus [2]", "--gpus 1", "--gpus [0,2]", "--gpus [0,2] --strategy ddp", "--gpus 0,2",
               "--gpus [1] --strategy ddp", "--gpus 1 --precision 16", "--gpus 2 --strategy dp",
               "--gpus 2 --strategy ddp_spawn", "--accelerator gpu --devices 2");
  const TempDir dir;
  // No GPU is visible to it, also where there are some.
  const ProgramResult run = run_command("CUDA_VISIBLE_DEVICES= " + kProgram +
                                        " --model simple --default_root_dir " + dir.path() + " " + options);
  CAPTURE(options, run.output);
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains(code(MessageCode::no_device)));
  const std::string asked = options.substr(options.find(' ') + 1);
  CHECK_THAT(run.output, contains("=" + asked.substr(0, asked.find(' '))));
  CHECK(run.output.find("error: ") == run.output.rfind("error: "));
  CHECK(std::count(run.output.begin(), run.output.end(), '\n') == 1);
}

}  // namespace
}  // namespace cxtrain::test
