#include "support/catch.h"

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
  for (const RankPlan& rank : plan.ranks) gpus.push_back(rank.gpu);
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
    const char* error;
  };
  const Row row = GENERATE(
      Row{2,
          nullptr,
          {.gpus = "3"},
          "gpus: 3 GPUs were asked for, but 2 are visible (indices 0 to 1) (node n1 has 2 GPUs; for the GPU "
          "of "
          "index 3 write 3,)\n"},
      Row{2,
          nullptr,
          {.devices = "3"},
          "devices: 3 GPUs were asked for, but 2 are visible (indices 0 to 1) (node n1 has 2 GPUs)\n"},
      Row{4,
          "3",
          {.gpus = "0,2"},
          "gpus: GPU 2 was asked for, but 1 is visible (index 0) (node n1 has 4 GPUs, of which "
          "CUDA_VISIBLE_DEVICES=3 shows 1)\n"},
      Row{4, nullptr, {.gpus = "1,1"}, "gpus: '1,1' names device 1 twice (node n1 has 4 GPUs)\n"},
      Row{4,
          nullptr,
          {.gpus = "-2"},
          "gpus: '-2' is a negative count (-1 alone means all) (node n1 has 4 GPUs)\n"},
      Row{4,
          nullptr,
          {.gpus = "0,-1"},
          "gpus: '0,-1': the index -1 is negative (-1 alone means all) (node n1 has 4 GPUs)\n"},
      Row{4,
          nullptr,
          {.gpus = ""},
          "gpus: '' is not a device list; write a count (2), a list (0,2), -1 for all, or auto (node n1 has "
          "4 "
          "GPUs)\n"},
      Row{4,
          nullptr,
          {.gpus = "two"},
          "gpus: 'two' is not a device list; write a count (2), a list (0,2), -1 for all, or auto (node n1 "
          "has 4 "
          "GPUs)\n"},
      Row{0,
          nullptr,
          {.gpus = "1"},
          "gpus: gpus=1 was asked for, but no GPU is visible: node n1 has 0 GPUs (drop --gpus to train on "
          "the "
          "CPU)\n"},
      Row{4,
          "",
          {.gpus = "1"},
          "gpus: gpus=1 was asked for, but no GPU is visible: node n1 has 4 GPUs, of which "
          "CUDA_VISIBLE_DEVICES= shows 0 (drop --gpus to train on the CPU)\n"},
      Row{0,
          nullptr,
          {.accelerator = "gpu"},
          "accelerator: no GPU is usable (accelerator=gpu): node n1 has 0 GPUs (use "
          "--accelerator cpu or auto)\n"},
      Row{4,
          nullptr,
          {.accelerator = "cpu", .gpus = "1"},
          "gpus: gpus=1 contradicts accelerator=cpu (drop one of them)\n"},
      Row{4,
          nullptr,
          {.accelerator = "cpu", .devices = "0,1"},
          "devices: processes on the CPU are counted, not listed (write how many, as --devices 2, or "
          "--accelerator gpu if GPUs were meant)\n"},
      Row{4,
          nullptr,
          {.devices = "0"},
          "devices: no device at all was asked for (use --accelerator cpu to train without GPUs)\n"},
      Row{4,
          nullptr,
          {.accelerator = "tpu"},
          "accelerator: there is no support for accelerator=tpu (use --accelerator gpu, cpu or auto)\n"});
  CHECK(all(device_plan(row.asked, machine_showing(row.machine, row.visible)).errors) == row.error);
}

TEST_CASE("a build without CUDA leaves the GPUs alone, and says so to whoever asks for one", "[config]") {
  Hardware hardware = machine_showing(2, "1");
  hardware.gpu_support = false;
  const Plan open = device_plan({}, hardware);
  CHECK(open.ok());
  CHECK(devices_of(open) == std::vector<std::string>{"cpu"});
  CHECK(all(open.warnings) ==
        "accelerator: node n1 has 2 GPUs, and this cxtrain was built without CUDA: the run uses the CPU "
        "(install the CUDA toolkit and NCCL and build cxtrain again, or use --accelerator cpu)\n");
  CHECK(device_plan({.accelerator = "cpu"}, hardware).warnings.empty());
  CHECK(device_plan({.devices = "2"}, hardware).world_size == 2);
  CHECK(all(device_plan({.accelerator = "gpu"}, hardware).errors) ==
        "accelerator: no GPU is usable (accelerator=gpu): node n1 has 2 GPUs, and this "
        "cxtrain was built without CUDA (use --accelerator cpu, or build cxtrain with the headers of CUDA "
        "and NCCL)\n");
  CHECK(all(device_plan({.gpus = "1"}, hardware).errors) ==
        "gpus: gpus=1 was asked for, but no GPU is visible: node n1 has 2 GPUs, and this cxtrain was built "
        "without CUDA (drop --gpus to train on the CPU)\n");

  hardware.nodes[0].gpus.clear();
  CHECK(device_plan({}, hardware).warnings.empty());
  CHECK(all(device_plan({.accelerator = "gpu"}, hardware).errors) ==
        "accelerator: no GPU is usable (accelerator=gpu): node n1 has 0 GPUs, and this "
        "cxtrain was built without CUDA (use --accelerator cpu, or build cxtrain with the headers of CUDA "
        "and NCCL)\n");
}

TEST_CASE("gpus wins over devices, with a warning", "[config]") {
  const Plan plan = device_plan({.devices = "3", .gpus = "1,2"}, machine(4));
  REQUIRE(plan.ok());
  CHECK(plan.devices == List{1, 2});
  CHECK(all(plan.warnings) ==
        "devices: gpus=1,2 and devices=3 were both given: gpus counts, as in Lightning (keep one)\n");
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
  CHECK(
      all(beside_gpus.warnings) ==
      "num_processes: num_processes=2 asks for processes on the CPU: the GPUs stay unused (use --accelerator "
      "gpu --devices 2)\n");
  CHECK(plan_with(1, {}, 4).accelerator == "gpu");
  const Plan ignored = plan_with(2, {.gpus = "3"}, 4);
  CHECK(ignored.world_size == 3);
  CHECK(all(ignored.warnings) ==
        "num_processes: num_processes=2 counts processes on the CPU and has no effect on GPUs (use "
        "--devices)\n");
  CHECK(all(plan_with(2, {.accelerator = "cpu", .devices = "3"}, 0).errors) ==
        "num_processes: num_processes=2 and devices=3 were both given (they mean the same on the CPU; keep "
        "one)\n");
  CHECK(all(plan_with(64, {}, 0).warnings) ==
        "num_processes: 64 processes share 32 cores (use --devices 32)\n");
}

TEST_CASE("Slurm shows each task a GPU of its own", "[config]") {
  WorldFacts facts = under_mpirun({4, 4});
  facts.launched_by = LaunchedBy::srun;
  const Plan open = device_plan({}, machine(1), facts);
  REQUIRE(open.ok());
  CHECK(devices_of(open) == std::vector<std::string>(8, "cuda:0"));
  CHECK(all(open.warnings)
            .find("each of the 4 ranks on node n1 sees one GPU; it is their own where srun gave each "
                  "another, else they "
                  "share it") != std::string::npos);
  const Plan asked = device_plan({.gpus = "4"}, machine(1), facts);
  INFO(all(asked.errors));
  CHECK(asked.ok());  // four tasks, four GPUs, of which each task sees its own
  Options options;
  options.trainer.auto_select_gpus = true;
  CHECK(resolve(options, machine(1), facts).ok());  // Slurm has selected
  CHECK_FALSE(device_plan({.gpus = "3"}, machine(1), facts).ok());
  CHECK_FALSE(device_plan({.gpus = "0,1"}, machine(1), facts).ok());
}
