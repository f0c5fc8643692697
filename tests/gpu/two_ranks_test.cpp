#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "gpu/gpu_program.h"
#include "gpu/gpu_support.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

struct TwoRankResult {
  nlohmann::json run;  ///< run.json
  std::string output;
};

/// Trains the digits on two ranks, in a folder of its own.
TwoRankResult train_on_two_ranks(const std::string& accelerator) {
  const test::TempDir folder;
  const std::string log = folder.file("log");
  const std::string command =
      test::mpirun() + " -np 2 --oversubscribe --bind-to none " + test::program() +
      " fit --model digits --strategy ddp --precision 32 --seed 3 --max_epochs 4 --accelerator " +
      accelerator + " --default_root_dir " + folder.path() + " >" + log + " 2>&1";
  const int status = std::system(command.c_str());
  const std::string output = test::slurp(log);
  INFO(command << "\n" << output);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return {nlohmann::json::parse(std::ifstream(folder.file("cxtrain_logs/version_0/run.json"))), output};
}

void check_learns_like_cpu(int gpus, const std::string& way) {
  if (!test::has_mpirun()) return;
  const TwoRankResult gpu = [&] {
    const test::VisibleGpus some(gpus);
    return train_on_two_ranks("gpu");
  }();
  const TwoRankResult cpu = train_on_two_ranks("cpu");
  CHECK_THAT(gpu.output, test::contains(way));
  CHECK(gpu.run.at("world_size") == 2);
  CHECK(gpu.run.at("global_step") == cpu.run.at("global_step"));
  const double expected = cpu.run.at("metrics").at("val_loss").get<double>();
  CHECK(std::abs(gpu.run.at("metrics").at("val_loss").get<double>() - expected) < 0.02 * expected);
  CHECK(expected < 0.5);
}

TEST_CASE("two ranks share one GPU by way of host memory and learn what two CPU ranks learn", "[gpu]") {
  check_learns_like_cpu(1, "staged through host memory");
}

TEST_CASE("two ranks with a GPU each learn over NCCL what two CPU ranks learn", "[gpu]") {
  if (!test::has_two_gpus()) return;
  check_learns_like_cpu(2, "NCCL 2.");
}

}  // namespace
}  // namespace cxtrain
