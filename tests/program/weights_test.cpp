#include <ATen/Context.h>
#include <ATen/ops/full.h>

#include "checkpoint/weights_support.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/run_program.h"
#include "support/times.h"

/// `--model.weights` as users have it: the same weights for every strategy and subcommand.
namespace cxtrain::test {
namespace {

const std::string kNoTraining =
    "--model.hidden 8 --optimizer sgd --optimizer.lr 0 --max_epochs 1 --limit_train_batches 1 "
    "--limit_val_batches 1 --num_sanity_val_steps 0 --accelerator cpu ";

std::string weights_of_digits(const std::string& prefix) {
  return safetensors_of({{prefix + "hidden.weight", at::full({8, 64}, 0.5)},
                         {prefix + "hidden.bias", at::full({8}, 0.25)},
                         {prefix + "output.weight", at::full({10, 8}, 2)},
                         {prefix + "output.bias", at::full({10}, 1.5)}});
}

std::string sha_after(const ProgramResult& run, const TempDir& dir) {
  INFO(run.output);
  REQUIRE(run.status == 0);
  return run_json(dir)["parameters_sha256"];
}

TEST_CASE("every strategy and subcommand starts from the weights that are named") {
  const TempDir files;
  const std::string plain = files.write("plain", weights_of_digits(""));
  const std::string other = files.write("other", weights_of_digits("model."));
  const std::string weights = "--model.weights " + plain + " ";
  const std::string mapped = "--model.weights " + other + " --model.weights_map model.= ";
  const auto sha = [&](const std::string& options) {
    const TempDir dir;
    return sha_after(run_program(options + kNoTraining + in(dir)), dir);
  };
  const std::string expected = sha(weights + "--devices 1 ");
  CHECK(sha("--devices 1 ") != expected);
  CHECK(sha(mapped + "--devices 1 ") == expected);
  CHECK(sha("validate " + mapped + "--devices 1 ") == expected);
  CHECK(sha(weights + "--strategy dp --num_processes 2 ") == expected);
  CHECK(sha(weights + "--strategy ddp --devices 2 ") == expected);
}

TEST_CASE("weights of another model are taken in part, and what was left out is listed") {
  const TempDir files;
  const std::string backbone = files.write("backbone", weights_of_digits(""));
  const auto train = [&](const std::string& options) {
    const TempDir dir;
    return run_ranks(2, "--model.weights " + backbone + " " + options + kNoTraining + in(dir));
  };
  const ProgramResult part = train("--model.weights_prefix hidden. ");
  CAPTURE(part.output);
  CHECK(part.status == 0);
  CHECK_THAT(part.output,
             contains("2 tensors of '" + backbone + "'") && contains("(2): output.bias, output.weight"));
  CHECK(times(part.output, "2 tensors of ") == 1);
  const std::string other = files.write("other", weights_of_digits("") + "");
  const ProgramResult loose = run_program("--model.weights " + other +
                                          " --model.weights_strict false --model.hidden 40 --max_epochs 1 "
                                          "--limit_train_batches 1 --accelerator cpu --devices 1" +
                                          in(files));
  CAPTURE(loose.output);
  CHECK(loose.status == 0);
  CHECK_THAT(loose.output, contains("1 tensor of ") && contains("(3): hidden.weight"));
  const ProgramResult none = run_program("--model.weights_prefix hidden. --devices 1");
  CHECK(none.status == 2);
  CHECK_THAT(none.output,
             contains(code(MessageCode::conflicting_options)) && contains("model.weights_prefix: "));
}

TEST_CASE("the configuration that is kept has the weights") {
  const TempDir files, dir;
  const std::string plain = files.write("plain", weights_of_digits(""));
  sha_after(run_program("--model.weights " + plain + " " + kNoTraining + in(dir)), dir);
  const std::string config = dir.path() + "/cxtrain_logs/version_0/config.yaml";
  CHECK_THAT(slurp(config), contains("  weights: " + plain + "\n  weights_map: \"\"\n"));
}

TEST_CASE("weights that do not fit are refused on all ranks alike, once") {
  const TempDir files, dir;
  const std::string other = files.write("other", weights_of_digits("model."));
  for (const int ranks : {1, 2}) {
    const ProgramResult run = run_ranks(ranks, "--model.weights " + other + " " + kNoTraining + in(dir));
    CAPTURE(ranks, run.output);
    CHECK(run.status == 2);
    const std::size_t first = run.output.find(code(MessageCode::model_mismatch));
    REQUIRE(first != std::string::npos);
    CHECK(run.output.find(code(MessageCode::model_mismatch), first + 1) == std::string::npos);
    CHECK_THAT(run.output, contains("try --model.weights_map model.="));
  }
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/cxtrain_logs"));
}

TEST_CASE("weights that only one rank sees are refused") {
  const TempDir files;
  const std::string plain = files.write("plain", weights_of_digits(""));
  const std::string options = kNoTraining + in(files) + "--model.weights ";
  const ProgramResult run = run_two_ranks(files, options + plain, options + files.file("none"));
  INFO(run.output);
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains(code(MessageCode::checkpoint_missing)));
  CHECK_THAT(run.output, contains("rank 1"));
}

}  // namespace
}  // namespace cxtrain::test
