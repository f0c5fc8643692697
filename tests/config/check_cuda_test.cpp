#include <algorithm>

#include "config/resolve_support.h"
#include "support/catch.h"
#include "support/error_text.h"

/// Drivers and GPUs that this build's CUDA cannot use.
namespace cxtrain {
namespace {

using test::code;
using test::contains;
using testing::all;
using testing::machine;

/// Two GPUs, and a build with this CUDA.
Hardware machine_for(int runtime, const std::string& driver, const std::string& second_gpu = "9.0") {
  Hardware hardware = machine(2);
  hardware.cuda_runtime = runtime;
  hardware.nodes[0].cuda_version = driver;
  hardware.nodes[0].gpus[0].compute_capability = "8.0";
  hardware.nodes[0].gpus[1].compute_capability = second_gpu;
  return hardware;
}

Plan plan_on(const Hardware& hardware, const std::string& devices = "2",
             const std::string& accelerator = "auto") {
  Options options;
  options.trainer.accelerator = accelerator;
  options.trainer.devices = devices;
  return testing::resolve(options, hardware, {});
}

TEST_CASE("a driver that is too old for this build is refused with both versions", "[config]") {
  const Plan plan = plan_on(machine_for(13000, "12.4"));
  CHECK_THAT(all(plan.errors), contains("built with CUDA 13.0") && contains(code(MessageCode::no_device)) &&
                                   contains("node n1") && contains("CUDA 12.4") && contains("version 580") &&
                                   contains("LibTorch for CUDA 12"));
  CHECK(plan.errors.size() == 1);
}

TEST_CASE("drivers run every CUDA of their major version and older ones", "[config]") {
  struct Row {
    int runtime;
    const char* driver;
  };
  const Row row = GENERATE(Row{13000, "13.0"}, Row{13010, "13.0"}, Row{12080, "12.4"}, Row{12080, "13.0"},
                           Row{13000, ""}, Row{0, "11.0"});
  CAPTURE(row.runtime, row.driver);
  CHECK(plan_on(machine_for(row.runtime, row.driver)).ok());
}

TEST_CASE("a GPU that LibTorch for this CUDA has dropped is refused where it is used", "[config]") {
  const Plan both = plan_on(machine_for(13000, "13.0", "7.0"));
  CHECK_THAT(all(both.errors), contains(code(MessageCode::no_device)) && contains("GPU 1") &&
                                   contains("node n1") && contains("NVIDIA") && contains("7.0") &&
                                   contains("CUDA 13") && contains("LibTorch") && contains("7.5"));
  CHECK(plan_on(machine_for(13000, "13.0", "7.0"), "1").ok());
  CHECK(plan_on(machine_for(13000, "13.0", "7.5")).ok());
  CHECK(plan_on(machine_for(13000, "13.0", "12.0")).ok());
  CHECK(plan_on(machine_for(12080, "12.8", "7.0")).ok());
  CHECK(plan_on(machine_for(13000, "13.0", "")).ok());  // not known
  CHECK(plan_on(machine_for(13000, "12.4", "7.0"), "1", "cpu").ok());
}

TEST_CASE("a driver that cannot start is named, and a run that need not have GPUs goes without", "[config]") {
  Hardware hardware = machine(2);
  hardware.nodes[0].visible.emplace();
  hardware.nodes[0].cuda_failure = "cuInit fails with error 802";
  const Plan wanted = plan_on(hardware, "1", "gpu");
  CHECK_THAT(all(wanted.errors),
             contains(code(MessageCode::no_device)) && contains("2 GPUs") && contains("802"));
  const Plan automatic = plan_on(hardware, "1");
  CHECK(automatic.ok());
  CHECK(automatic.accelerator == "cpu");
  CHECK_THAT(all(automatic.warnings), contains("802"));
}

TEST_CASE("no GPU is part of two ranks' models", "[config]") {
  int planned = 0;
  for (const char* devices : {"-1", "0,1,2", "3,0,1,2", "0,1", "4", "2", ""}) {
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(devices, ranks);
      Options options;
      options.trainer.accelerator = "gpu";
      if (*devices != 0) options.trainer.devices = devices;
      options.trainer.devices_per_rank = 2;
      const Plan plan = testing::resolve(options, machine(4), testing::under_mpirun({ranks}));
      if (!plan.ok()) continue;
      ++planned;
      std::vector<int> used;
      for (const RankPlan& rank : plan.ranks) used.insert(used.end(), rank.gpus.begin(), rank.gpus.end());
      std::sort(used.begin(), used.end());
      CHECK(std::adjacent_find(used.begin(), used.end()) == used.end());
    }
  }
  CHECK(planned >= 4);
}

}  // namespace
}  // namespace cxtrain
