#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <vector>

#include "gpu_bench/measurement.h"
#include "gpu_bench/timing.h"

namespace cxtrain::gpu_bench {

Figures measure_bucket_copies(const Setup& setup) {
  // A bucket of 25 MB of float32, in 160 gradients: about ResNet-50's.
  constexpr std::int64_t kGradients = 160;
  const std::int64_t each = setup.tiny ? 8 : 40960;
  const at::Tensor bucket = at::empty({kGradients * each}, setup.device);
  std::vector<at::Tensor> places = bucket.split(each), gradients;
  for (std::int64_t i = 0; i < kGradients; ++i) gradients.push_back(at::ones({each}, setup.device));
  const int rounds = setup.tiny ? 1 : 7, calls = setup.tiny ? 2 : 20;
  const CallTime apart = time_calls(setup.device, rounds, calls, [&] {
    for (std::size_t i = 0; i < places.size(); ++i) places[i].copy_(gradients[i]);
  });
  const CallTime together =
      time_calls(setup.device, rounds, calls, [&] { at::_foreach_copy_(places, gradients); });
  Figures figures;
  figures.add("160 copies, host", apart.told * 1e6, "us");
  figures.add("160 copies, done", apart.done * 1e6, "us");
  figures.add("one call, host", together.told * 1e6, "us");
  figures.add("one call, done", together.done * 1e6, "us");
  figures.add("160 copies over one call", apart.done / together.done, "x");
  return figures;
}

}  // namespace cxtrain::gpu_bench
