#include "cxtrain/device/cuda_driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

#include "cxtrain/config/devices.h"
#include "cxtrain/device/nvml.h"
#include "device/fake_driver.h"
#include "support/catch.h"
#include "support/hidden_case.h"

namespace cxtrain {
namespace {

using test::EnvironmentVariable;
using test::kFakeDriver;
using Uuids = std::vector<std::string>;

const std::string kA = "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a",
                  kB = "GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b",
                  kD = "MIG-0d0d0d0d-0d0d-0d0d-0d0d-0d0d0d0d0d0d";

/// This machine as it would be, with the fake driver and the fake NVML or without them.
Hardware fake_machine(bool with_nvml, bool with_driver) {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = "n1";
  join_gpus(with_nvml ? read_gpus_from_nvml(kFakeDriver) : std::vector<Gpu>(),
            with_driver ? read_gpus_from_driver(kFakeDriver) : std::nullopt, node);
  return hardware;
}

Uuids visible_uuids(const Hardware& hardware) {
  Uuids uuids;
  for (const Gpu& gpu : visible_gpus(hardware, 0).gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

TEST_CASE("the driver tells of the GPUs that CUDA shows, in its order", "[device]") {
  const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "bad");
  const auto view = read_gpus_from_driver(kFakeDriver);
  REQUIRE(view.has_value());
  CHECK(view->version == "13.0");
  CHECK(view->failure.empty());
  REQUIRE(view->gpus.size() == 3);
  CHECK(view->gpus[0].uuid == kB);
  CHECK(view->gpus[0].compute_capability == "7.0");
  CHECK(view->gpus[1].uuid == kA);
  CHECK(view->gpus[1].index == 1);
  CHECK(view->gpus[1].name == "Fake by CUDA");
  CHECK(view->gpus[1].memory_total_mib == 900);
  CHECK(view->gpus[1].compute_mode == "exclusive_process");
  CHECK(view->gpus[2].uuid == kD);
  CHECK(view->gpus[2].mig == Mig::instance);
  CHECK(std::string(std::getenv("CUDA_DEVICE_ORDER")) == "PCI_BUS_ID");
}

TEST_CASE("no driver, or a library that is another, tells nothing", "[device]") {
  CHECK_FALSE(read_gpus_from_driver("libno_such_driver.so.1").has_value());
  CHECK_FALSE(read_gpus_from_driver_in_child("libno_such_driver.so.1").has_value());
  const auto other = read_gpus_from_driver("libm.so.6");
  REQUIRE(other.has_value());
  CHECK(other->gpus.empty());
  CHECK_FALSE(other->failure.empty());
}

TEST_CASE("a driver that does not start says why, and one that has nothing to show has not failed",
          "[device]") {
  {
    const EnvironmentVariable mismatch("FAKE_CUDA_INIT", "803");
    CHECK(read_gpus_from_driver(kFakeDriver)->failure ==
          "cuInit fails with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
  }
  const EnvironmentVariable nothing("FAKE_CUDA_INIT", "100");
  CHECK(read_gpus_from_driver(kFakeDriver)->failure.empty());
  CHECK(read_gpus_from_driver(kFakeDriver)->gpus.empty());
}

/// Run by the next tests in a process of their own: here the driver may have been started.
TEST_CASE("a child asks", "[.a_child_asks]") {
  const std::unique_ptr<void, int (*)(void*)> library{dlopen(kFakeDriver, RTLD_NOW | RTLD_LOCAL), dlclose};
  REQUIRE(library);
  const auto starts = reinterpret_cast<int (*)()>(dlsym(library.get(), "fake_cuda_starts"));
  const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "da");
  const auto view = read_gpus_from_driver_in_child(kFakeDriver);
  CHECK(starts() == 0);
  REQUIRE(view.has_value());
  CHECK(view->version == "13.0");
  REQUIRE(view->gpus.size() == 2);
  CHECK(view->gpus[0].uuid == kD);
  CHECK(view->gpus[0].mig == Mig::instance);
  CHECK(view->gpus[1].compute_capability == "9.0");
  {
    const EnvironmentVariable mismatch("FAKE_CUDA_INIT", "803");
    CHECK(read_gpus_from_driver_in_child(kFakeDriver)->failure.find("DRIVER_MISMATCH") != std::string::npos);
  }
  {
    const EnvironmentVariable hangs("FAKE_CUDA_HANGS", "1");
    const auto nothing = read_gpus_from_driver_in_child(kFakeDriver, /*most_seconds=*/1);
    REQUIRE(nothing.has_value());
    CHECK(nothing->gpus.empty());
    CHECK(nothing->failure.find("does not answer") != std::string::npos);
  }
  CHECK(starts() == 0);
  // One that uses the driver itself asks it itself: in a child it would not start.
  read_gpus_from_driver(kFakeDriver);
  CHECK(starts() == 1);
  CHECK(read_gpus_from_driver_in_child(kFakeDriver)->gpus.size() == 2);
  CHECK(starts() == 2);
}

TEST_CASE("a child asks the driver, and is given up where that hangs; no driver is started in this process",
          "[device]") {
  CHECK(test::passes_alone("[.a_child_asks]"));
}

TEST_CASE("what NVML and the driver tell is one picture", "[device]") {
  const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "ba");
  const Hardware hardware = fake_machine(true, true);
  const Node& node = hardware.nodes[0];
  REQUIRE(node.gpus.size() == 5);
  CHECK(node.cuda_version == "13.0");
  CHECK(node.gpus[0].name == "Fake A");
  CHECK(node.gpus[0].memory_used_mib == 100);
  CHECK(node.gpus[0].compute_capability == "9.0");  // the driver's
  CHECK(node.gpus[1].processes == 2);
  CHECK(node.visible == Uuids{kB, kA});
  CHECK(visible_uuids(hardware) == Uuids{kB, kA});
}

TEST_CASE("a MIG instance is a device, its GPU is none", "[device]") {
  SECTION("by the driver's word") {
    const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "d");
    Hardware hardware = fake_machine(true, true);
    hardware.env["CUDA_VISIBLE_DEVICES"] = kD;
    CHECK(visible_uuids(hardware) == Uuids{kD});
    CHECK(visible_gpus(hardware, 0).ignored.empty());
    CHECK(visible_gpus(hardware, 0).gpus[0].index == 3);
  }
  SECTION("by the variable alone") {
    Hardware hardware = fake_machine(true, false);
    CHECK(visible_uuids(hardware) == Uuids{kA, kB});
    hardware.env["CUDA_VISIBLE_DEVICES"] = kD;
    CHECK(visible_uuids(hardware) == Uuids{kD});
    hardware.env["CUDA_VISIBLE_DEVICES"] = "3";  // instances have no number
    CHECK(visible_uuids(hardware).empty());
  }
  SECTION("where every GPU is divided") {
    Hardware hardware = fake_machine(true, false);
    hardware.nodes[0].gpus.erase(hardware.nodes[0].gpus.begin(), hardware.nodes[0].gpus.begin() + 2);
    CHECK(visible_uuids(hardware) == Uuids{kD});
  }
}

TEST_CASE("a container without NVML has the GPUs that CUDA shows, whatever the variable says of others",
          "[device]") {
  const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "xb");
  Hardware hardware = fake_machine(false, true);
  hardware.env["CUDA_VISIBLE_DEVICES"] = "6,7";
  const VisibleGpus visible = visible_gpus(hardware, 0);
  REQUIRE(visible.gpus.size() == 2);
  CHECK(visible.gpus[0].index == 0);
  CHECK(visible.gpus[1].uuid == kB);
  CHECK(visible.ignored.empty());
}

TEST_CASE("ranks tell each other what CUDA shows, and files do not hold it", "[device]") {
  const EnvironmentVariable shows("FAKE_CUDA_SHOWS", "bd");
  const Hardware hardware = fake_machine(true, true);
  const Hardware heard = parse_hardware(to_json_with_visible(hardware), "a rank's hardware");
  CHECK(heard.nodes[0].visible == Uuids{kB, kD});
  CHECK(heard.nodes[0].cuda_version == "13.0");
  CHECK(heard.nodes[0].gpus[3].mig == Mig::instance);
  CHECK(heard.nodes[0].gpus[2].mig == Mig::divided);
  CHECK(heard.nodes[0].gpus[1].compute_capability == "7.0");
  CHECK_FALSE(parse_hardware(to_json(hardware), "a file").nodes[0].visible.has_value());
}

TEST_CASE("a UUID is the same with any prefix", "[device]") {
  CHECK(same_uuid(kA, kA));
  CHECK(same_uuid("GPU-0A0b", "MIG-0a0B"));
  CHECK(same_uuid("0a-0b", "GPU-0a0b"));
  CHECK_FALSE(same_uuid(kA, kB));
  CHECK_FALSE(same_uuid("", ""));
}

TEST_CASE("a device that is not the planned GPU is told with both", "[device]") {
  CHECK(other_gpu_than_planned("cuda:1", kA, kA).empty());
  CHECK(other_gpu_than_planned("cuda:1", kA, std::nullopt).empty());
  CHECK(other_gpu_than_planned("cuda:1", "", kA).empty());
  CHECK_THAT(other_gpu_than_planned("cuda:1", kA, kB), test::contains("cuda:1") && test::contains(kB) &&
                                                           test::contains(kA) &&
                                                           test::contains("CUDA_DEVICE_ORDER"));
}

}  // namespace
}  // namespace cxtrain
