#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>

#include "gpu_bench/measurement.h"
#include "gpu_bench/timing.h"

namespace cxtrain::gpu_bench {

Figures measure_copy_overlap(const Setup& setup) {
  if (setup.device.is_cpu()) throw NotMeasurable("a CPU has one stream");
  const int rounds = setup.tiny ? 1 : 7, size = setup.tiny ? 16 : 4096;
  const at::Tensor host = at::ones({setup.tiny ? 1024 : 64 * 3 * 224 * 224}).pin_memory();
  const at::Tensor target = at::empty_like(host, setup.device);
  const at::Tensor left = at::rand({size, size}, setup.device), right = at::rand({size, size}, setup.device);
  at::Tensor product = at::empty_like(left);
  const c10::Stream side =
      c10::impl::VirtualGuardImpl(setup.device.type()).getStreamFromGlobalPool(setup.device);

  const auto copy = [&] {
    const c10::StreamGuard on_side(side);
    target.copy_(host, /*non_blocking=*/true);
  };
  const auto multiply = [&] { at::matmul_out(product, left, right); };
  const double copying = time_calls(setup.device, rounds, 1, copy).done;
  const double one_product = time_calls(setup.device, rounds, 4, multiply).done;
  // As many as take as long as the copy does.
  const int products =
      std::clamp(static_cast<int>(std::lround(copying / one_product)), 1, setup.tiny ? 2 : 1000);
  const auto compute = [&] {
    for (int i = 0; i < products; ++i) multiply();
  };
  const double computing = time_calls(setup.device, rounds, 1, compute).done;
  const double both = time_calls(setup.device, rounds, 1, [&] {
                        copy();
                        compute();
                      }).done;
  Figures figures;
  figures.add("copy", copying * 1e3, "ms");
  figures.add("computation", computing * 1e3, "ms");
  figures.add("both at once", both * 1e3, "ms");
  figures.add("hidden share", (copying + computing - both) / std::min(copying, computing), "");
  return figures;
}

}  // namespace cxtrain::gpu_bench
