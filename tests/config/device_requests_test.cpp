#include <algorithm>

#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

struct AskedDevices {
  const char *accelerator = nullptr, *devices = nullptr, *gpus = nullptr;
};

Plan device_plan(const AskedDevices& asked, const Hardware& hardware, const WorldFacts& launched = {}) {
  Options options;
  if (asked.accelerator) options.trainer.accelerator = asked.accelerator;
  if (asked.devices) options.trainer.devices = asked.devices;
  if (asked.gpus) options.trainer.gpus = asked.gpus;
  return resolve(options, hardware, launched);
}

Hardware machine_showing(int gpus, const char* visible) {
  Hardware hardware = machine(gpus);
  if (visible != nullptr) hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

List gpus_of(const Plan& plan) {
  List gpus;
  for (const RankPlan& rank : plan.ranks) gpus.push_back(rank.gpu.value());
  return gpus;
}

}  // namespace

TEST_CASE("gpus: which GPUs are used, on 1, 4 and 8 of them", "[config]") {
  struct Row {
    int machine;
    const char *visible, *gpus;
    List devices, physical;
  };
  const Row row =
      GENERATE(Row{1, nullptr, "1", {0}, {0}}, Row{1, nullptr, "-1", {0}, {0}},
               Row{1, nullptr, "0,", {0}, {0}}, Row{4, nullptr, "1", {0}, {0}},
               Row{4, nullptr, "3", {0, 1, 2}, {0, 1, 2}}, Row{4, nullptr, "-1", {0, 1, 2, 3}, {0, 1, 2, 3}},
               Row{4, nullptr, "[-1]", {0, 1, 2, 3}, {0, 1, 2, 3}}, Row{4, nullptr, "0,2", {0, 2}, {0, 2}},
               Row{4, nullptr, "[0, 2]", {0, 2}, {0, 2}}, Row{4, nullptr, "2,0", {2, 0}, {2, 0}},
               Row{4, nullptr, "1,", {1}, {1}}, Row{4, nullptr, "[1]", {1}, {1}},
               Row{8, nullptr, "8", {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}},
               Row{8, "6,4,2", "2", {0, 1}, {6, 4}}, Row{8, "6,4,2", "[2]", {2}, {2}},
               Row{8, "6,4,2", "-1", {0, 1, 2}, {6, 4, 2}}, Row{8, "GPU-5,GPU-1", "1,0", {1, 0}, {1, 5}},
               Row{8, "3,99,1", "-1", {0}, {3}}, Row{4, "3", "1", {0}, {3}});
  CAPTURE(row.machine, row.visible ? row.visible : "-", row.gpus);
  Hardware hardware = machine_showing(row.machine, row.visible);
  const Plan plan = device_plan({.gpus = row.gpus}, hardware);
  INFO(all(plan.errors));
  REQUIRE(plan.ok());
  CHECK(plan.accelerator == "gpu");
  CHECK(plan.devices == row.devices);
  CHECK(gpus_of(plan) == row.physical);
  CHECK(plan.strategy == (row.devices.size() > 1 ? "ddp" : "single"));
  // devices with accelerator=gpu is the same request.
  CHECK(device_plan({.accelerator = "gpu", .devices = row.gpus}, hardware).devices == row.devices);
  CHECK(device_plan({.devices = row.gpus}, hardware).devices == row.devices);
}

TEST_CASE("gpus: none, nothing and 0 are the CPU where nothing else was said", "[config]") {
  CHECK(device_plan({}, machine(0)).accelerator == "cpu");
  CHECK(device_plan({.gpus = "0"}, machine(8)).accelerator == "cpu");
  CHECK(device_plan({.gpus = "[]"}, machine(8)).accelerator == "cpu");
  CHECK(device_plan({.gpus = "0"}, machine(0)).ok());
  CHECK(device_plan({}, machine_showing(4, "")).accelerator == "cpu");
  CHECK(device_plan({}, machine_showing(4, "-1")).accelerator == "cpu");
}

TEST_CASE("requests that cannot be met say what was asked and what there is", "[config]") {
  struct Row {
    int machine;
    const char* visible;
    AskedDevices asked;
    MessageCode reason;
    std::vector<std::string> values;
  };
  const Row row = GENERATE(
      Row{2, nullptr, {.gpus = "3"}, MessageCode::no_device, {"--gpus: 3 GPUs", "node n1 has 2 GPUs", "3,"}},
      Row{2, nullptr, {.devices = "3"}, MessageCode::no_device, {"--devices: 3 GPUs", "node n1 has 2 GPUs"}},
      Row{4,
          "3",
          {.gpus = "0,2"},
          MessageCode::no_device,
          {"--gpus: GPU 2", "CUDA_VISIBLE_DEVICES=3 shows 1"}},
      Row{4, nullptr, {.gpus = "1,1"}, MessageCode::invalid_value, {"--gpus: '1,1'", "device 1", "4 GPUs"}},
      Row{4, nullptr, {.gpus = "-2"}, MessageCode::invalid_value, {"--gpus: '-2'", "negative", "4 GPUs"}},
      Row{4, nullptr, {.gpus = "0,-1"}, MessageCode::invalid_value, {"--gpus: '0,-1'", "index -1", "4 GPUs"}},
      Row{4, nullptr, {.gpus = ""}, MessageCode::invalid_value, {"--gpus: ''", "auto", "4 GPUs"}},
      Row{4, nullptr, {.gpus = "two"}, MessageCode::invalid_value, {"--gpus: 'two'", "auto", "4 GPUs"}},
      Row{0, nullptr, {.gpus = "1"}, MessageCode::no_device, {"--gpus: gpus=1", "0 GPUs", "drop --gpus"}},
      Row{4, "", {.gpus = "1"}, MessageCode::no_device, {"--gpus: gpus=1", "CUDA_VISIBLE_DEVICES= shows 0"}},
      Row{0,
          nullptr,
          {.accelerator = "gpu"},
          MessageCode::no_device,
          {"accelerator=gpu", "--accelerator cpu"}},
      Row{4,
          nullptr,
          {.accelerator = "cpu", .gpus = "1"},
          MessageCode::conflicting_options,
          {"gpus=1", "accelerator=cpu"}},
      Row{4,
          nullptr,
          {.accelerator = "cpu", .devices = "0,1"},
          MessageCode::invalid_value,
          {"--devices: ", "--devices 2", "--accelerator gpu"}},
      Row{4, nullptr, {.devices = "0"}, MessageCode::no_device, {"--devices: ", "--accelerator cpu"}},
      Row{4, nullptr, {.accelerator = "tpu"}, MessageCode::unsupported_option, {"accelerator=tpu"}});
  const std::string errors = all(device_plan(row.asked, machine_showing(row.machine, row.visible)).errors);
  CHECK_THAT(errors, test::contains(test::code(row.reason)));
  for (const std::string& value : row.values) CHECK_THAT(errors, test::contains(value));
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 1);
}

TEST_CASE("a build without CUDA leaves the GPUs alone, and says so to whoever asks for one", "[config]") {
  Hardware hardware = machine_showing(2, "1");
  hardware.gpu_support = false;
  const Plan open = device_plan({}, hardware);
  CHECK(open.ok());
  CHECK(devices_of(open) == std::vector<std::string>{"cpu"});
  CHECK_THAT(all(open.warnings), test::contains("accelerator:") && test::contains("--accelerator") &&
                                     test::contains("node n1") && test::contains("2 GPUs") &&
                                     test::contains("NCCL"));
  CHECK(device_plan({.accelerator = "cpu"}, hardware).warnings.empty());
  CHECK(device_plan({.devices = "2"}, hardware).world_size == 2);
  CHECK_THAT(all(device_plan({.accelerator = "gpu"}, hardware).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("accelerator:") &&
                 test::contains("--accelerator") && test::contains("node n1") && test::contains("2 GPUs") &&
                 test::contains("accelerator=gpu") && test::contains("NCCL"));
  CHECK_THAT(all(device_plan({.gpus = "1"}, hardware).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("gpus:") &&
                 test::contains("--gpus") && test::contains("node n1") && test::contains("2 GPUs") &&
                 test::contains("gpus=1"));

  hardware.nodes[0].gpus.clear();
  CHECK(device_plan({}, hardware).warnings.empty());
  CHECK_THAT(all(device_plan({.accelerator = "gpu"}, hardware).errors),
             test::contains(test::code(MessageCode::no_device)) && test::contains("accelerator:") &&
                 test::contains("--accelerator") && test::contains("node n1") && test::contains("0 GPUs") &&
                 test::contains("accelerator=gpu") && test::contains("NCCL"));
}

TEST_CASE("gpus wins over devices, with a warning", "[config]") {
  const Plan plan = device_plan({.devices = "3", .gpus = "1,2"}, machine(4));
  REQUIRE(plan.ok());
  CHECK(plan.devices == List{1, 2});
  CHECK_THAT(all(plan.warnings),
             test::contains("devices:") && test::contains("gpus=1,2") && test::contains("devices=3"));
}

TEST_CASE("num_processes counts processes on the CPU", "[config]") {
  const auto plan_with = [](int processes, const AskedDevices& asked, int gpus) {
    Options options;
    options.trainer.num_processes = processes;
    if (asked.accelerator) options.trainer.accelerator = asked.accelerator;
    if (asked.devices) options.trainer.devices = asked.devices;
    if (asked.gpus) options.trainer.gpus = asked.gpus;
    return resolve(options, machine(gpus), {});
  };
  const Plan four = plan_with(4, {}, 0);
  CHECK(four.strategy == "ddp");
  CHECK(four.world_size == 4);
  CHECK(four.warnings.empty());
  const Plan beside_gpus = plan_with(2, {}, 4);
  CHECK(beside_gpus.accelerator == "cpu");
  CHECK_THAT(all(beside_gpus.warnings), test::contains("num_processes:") && test::contains("--accelerator") &&
                                            test::contains("--devices 2") &&
                                            test::contains("num_processes=2"));
  CHECK(plan_with(1, {}, 4).accelerator == "gpu");
  const Plan ignored = plan_with(2, {.gpus = "3"}, 4);
  CHECK(ignored.world_size == 3);
  CHECK_THAT(all(ignored.warnings), test::contains("num_processes:") && test::contains("--devices") &&
                                        test::contains("num_processes=2"));
  CHECK_THAT(all(plan_with(2, {.accelerator = "cpu", .devices = "3"}, 0).errors),
             test::contains(test::code(MessageCode::conflicting_options)) &&
                 test::contains("num_processes:") && test::contains("num_processes=2") &&
                 test::contains("devices=3"));
  CHECK_THAT(all(plan_with(64, {}, 0).warnings),
             test::contains("num_processes:") && test::contains("--devices 32") &&
                 test::contains("64 processes") && test::contains("32 cores"));
}

TEST_CASE("Slurm shows each task a GPU of its own", "[config]") {
  WorldFacts facts = under_mpirun({4, 4});
  facts.launched_by = LaunchedBy::srun;
  const Plan open = device_plan({}, machine(1), facts);
  REQUIRE(open.ok());
  CHECK(devices_of(open) == std::vector<std::string>(8, "cuda:0"));
  CHECK_THAT(all(open.warnings),
             test::contains("4 ranks") && test::contains("node n1") && test::contains("srun"));
  const Plan asked = device_plan({.gpus = "4"}, machine(1), facts);
  INFO(all(asked.errors));
  CHECK(asked.ok());  // four tasks, four GPUs, of which each task sees its own
  Options options;
  options.trainer.auto_select_gpus = true;
  CHECK(resolve(options, machine(1), facts).ok());  // Slurm has selected
  CHECK_FALSE(device_plan({.gpus = "3"}, machine(1), facts).ok());
  CHECK_FALSE(device_plan({.gpus = "0,1"}, machine(1), facts).ok());
}
