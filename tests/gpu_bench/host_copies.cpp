#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

#include "gpu_bench/measurement.h"
#include "gpu_bench/timing.h"

namespace cxtrain::gpu_bench {

Figures measure_host_copies(const Setup& setup) {
  if (setup.device.is_cpu()) throw NotMeasurable("the device is the host");
  // 64 images of 3 x 224 x 224 in float32: 38.5 MB.
  const at::Tensor pageable = at::ones({setup.tiny ? 1024 : 64 * 3 * 224 * 224});
  const at::Tensor pinned = pageable.pin_memory(), device = at::empty_like(pageable, setup.device);
  const int rounds = setup.tiny ? 1 : 5, calls = setup.tiny ? 2 : 20;
  const auto gigabytes_per_second = [&](const at::Tensor& to, const at::Tensor& from) {
    const CallTime time =
        time_calls(setup.device, rounds, calls, [&] { to.copy_(from, /*non_blocking=*/true); });
    return static_cast<double>(from.nbytes()) / time.done / 1e9;
  };
  Figures figures;
  figures.add("page-locked to device", gigabytes_per_second(device, pinned), "GB/s");
  figures.add("pageable to device", gigabytes_per_second(device, pageable), "GB/s");
  figures.add("device to page-locked", gigabytes_per_second(pinned, device), "GB/s");
  return figures;
}

}  // namespace cxtrain::gpu_bench
