#include <algorithm>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/run_program.h"

/// The memory of a rank beside the figures of `plan`.
namespace cxtrain::test {
namespace {

/// Bytes that `plan` states for the rank that needs most of them.
double planned_bytes(int ranks, const std::string& options) {
  const ProgramResult run = run_program("plan --json --devices " + std::to_string(ranks) + " " + options);
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const nlohmann::json plan = nlohmann::json::parse(run.output);
  double most = 0;
  for (const nlohmann::json& rank : plan["memory"])
    most = std::max(most, rank["parameters"].get<double>() + rank["gradients"].get<double>() +
                              rank["optimizer"].get<double>());
  return most;
}

TEST_CASE("a rank takes the memory that plan states") {
  struct Row {
    int ranks;
    const char* strategy;
  };
  const Row row = GENERATE(values<Row>({{1, "single"},
                                        {1, "single --accumulate_grad_batches 2"},
                                        {2, "ddp"},
                                        {2, "ddp --accumulate_grad_batches 2"},
                                        {2, "zero --strategy.stage 1"},
                                        {2, "zero --strategy.stage 1 --accumulate_grad_batches 2"},
                                        {2, "zero --strategy.stage 2"},
                                        {2, "zero"},
                                        {2, "zero --strategy.parameters all"},
                                        {2, "pipeline --accumulate_grad_batches 2"},
                                        {4, "zero"},
                                        {4, "pipeline --accumulate_grad_batches 4"}}));
  CAPTURE(row.ranks, row.strategy);
  const TempDir text;
  // Two tokens a rank: `plan` leaves out activations, and the memory of the matrix products for them.
  const std::string options =
      "--accelerator cpu --max_steps 3 --limit_val_batches 0 --enable_checkpointing false --model gpt "
      "--model.context 2 --model.sample_bytes 0 --data.batch_size 1 --data.path " +
      text.write("text", text_of_squares()) + " --strategy " + row.strategy;
  const auto taken = [&](const std::string& sizes) {
    const TempDir dir;
    const ProgramResult run = run_ranks(row.ranks, options + sizes + in(dir));
    CAPTURE(run.output);
    REQUIRE(run.status == 0);
    return run_json(dir)["pss_bytes"].get<double>();
  };
  const std::string tiny = " --model.width 16 --model.layers 4",
                    large = " --model.width 1024 --model.layers 4";
  const double planned = planned_bytes(row.ranks, options + large) - planned_bytes(row.ranks, options + tiny);
  const double found = taken(large) - taken(tiny);
  CAPTURE(planned, found);
  CHECK(found == Approx(planned).epsilon(0.05));
}

}  // namespace
}  // namespace cxtrain::test
