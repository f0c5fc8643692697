#include "cxtrain/base/process.h"
#include "support/catch.h"
#include "support/run_program.h"

/// The end of a job in which one rank's device has failed, and whatever lies there can never be given back
/// (failing_rank_mpi_test.cpp).
namespace cxtrain::test {
namespace {

TEST_CASE("a rank that fails says so and ends the job before anything of it is taken apart") {
  const char* job = GENERATE("[.holding_model]", "[.holding_strategy]", "[.holding_parameters]");
  const int ranks = GENERATE(2, 3);
  CAPTURE(job, ranks);
  const ProgramResult run =
      run_command(std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(ranks) +
                      " --oversubscribe --bind-to none " + CXTRAIN_BIN_DIR + "/fake_device_mpi_tests " + job,
                  /*deadline=*/40);
  CAPTURE(run.output);
  CHECK(run.status == 75);
  const std::string message = "error: rank " + std::to_string(ranks - 1) + " on " + hostname() +
                              ", epoch 0, step 3: the device has failed";
  CHECK(run.output.find(message) != std::string::npos);
}

}  // namespace
}  // namespace cxtrain::test
