#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <c10/cuda/CUDAFunctions.h>

#include "cxtrain/config/devices.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/trainer/generators.h"
#include "gpu/gpu_support.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("the driver shows the GPUs that CUDA shows, in CUDA's order, asked here or by a child", "[gpu]") {
  for (const auto& view : {read_gpus_from_driver(), read_gpus_from_driver_in_child()}) {
    REQUIRE(view.has_value());
    CHECK(view->failure.empty());
    CHECK_FALSE(view->version.empty());
    REQUIRE(view->gpus.size() == static_cast<std::size_t>(c10::cuda::device_count()));
    for (std::size_t i = 0; i < view->gpus.size(); ++i) {
      const auto device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
      CAPTURE(i, view->gpus[i].uuid);
      CHECK(
          other_gpu_than_planned(device.str(), view->gpus[i].uuid, open_accelerator().uuid(device)).empty());
      CHECK_FALSE(view->gpus[i].compute_capability.empty());
      CHECK(view->gpus[i].memory_total_mib > 0);
    }
  }
}

TEST_CASE("this machine's GPUs are visible, and in use as NVML tells", "[gpu]") {
  const Hardware hardware = probe_hardware();
  const VisibleGpus visible = visible_gpus(hardware, 0);
  REQUIRE(visible.gpus.size() == static_cast<std::size_t>(c10::cuda::device_count()));
  CHECK(visible.ignored.empty());
  CHECK(hardware.cuda_runtime >= 12000);
  CHECK(hardware.nodes[0].cuda_failure.empty());
}

TEST_CASE("every GPU of a rank draws numbers of its own, which can be saved and had again", "[gpu]") {
  std::vector<at::Device> devices;
  for (c10::DeviceIndex i = 0; i < c10::cuda::device_count(); ++i) devices.emplace_back(c10::kCUDA, i);
  Generators generators(devices);
  generators.seed_apart(3, 0, 1);
  StateDict state;
  generators.save(state);
  const auto draw = [&] {
    std::vector<at::Tensor> drawn;
    for (const at::Device device : devices) drawn.push_back(at::rand({64}, device).cpu());
    return drawn;
  };
  const auto first = draw();
  for (std::size_t i = 1; i < first.size(); ++i) CHECK_FALSE(at::equal(first[i], first[0]));
  generators.load(state);
  const auto again = draw();
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(at::equal(first[i], again[i]));
}

}  // namespace
}  // namespace cxtrain
