#include "cxtrain/reduce/sync_batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/comm/solo_communicator.h"
#include "gpu_bench/measurement.h"
#include "gpu_bench/timing.h"

namespace cxtrain::gpu_bench {
namespace {

/// One batch norm in training, forward and backward.
struct NormStep {
  NormStep(at::IntArrayRef shape, at::ScalarType dtype, c10::Device device) {
    const at::TensorOptions of_weights = at::TensorOptions(device).dtype(at::kFloat);
    input = at::randn(shape, of_weights).to(dtype).requires_grad_();
    goal = at::randn(shape, of_weights).to(dtype);
    weight = at::ones({shape[1]}, of_weights).requires_grad_();
    bias = at::zeros({shape[1]}, of_weights).requires_grad_();
    mean = at::zeros({shape[1]}, of_weights);
    variance = at::ones({shape[1]}, of_weights);
  }

  at::Tensor forward() {
    return at::batch_norm(input, weight, bias, mean, variance, /*training=*/true, 0.1, 1e-5,
                          /*cudnn_enabled=*/true);
  }
  /// Through our batch norm where `sync` is given. The output; gradients are in `input`, `weight` and `bias`.
  at::Tensor run(SyncBatchNorm* sync) {
    for (at::Tensor* tensor : {&input, &weight, &bias}) tensor->mutable_grad().reset();
    at::Tensor output;
    {
      std::optional<SyncBatchNorm::Scope> scope;
      if (sync != nullptr) scope.emplace(*sync);
      output = forward();
    }
    output.backward(goal);
    return output.detach();
  }

  at::Tensor input, goal, weight, bias, mean, variance;
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

/// MiB that a step takes beyond what is there before it.
double peak_mib(NormStep& step, SyncBatchNorm* sync, c10::Device device) {
  synchronize({&device, 1});
  step.run(nullptr);  // gradients stand
  c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  const std::int64_t before = peak_device_bytes({&device, 1});
  step.run(sync);
  return static_cast<double>(peak_device_bytes({&device, 1}) - before) / (1 << 20);
}

void compare(Figures& figures, const Setup& setup, at::ScalarType dtype) {
  const std::vector<std::int64_t> shape =
      setup.tiny ? std::vector<std::int64_t>{4, 8, 6, 6} : std::vector<std::int64_t>{64, 256, 56, 56};
  const std::string of = std::string(" ") + c10::toString(dtype);
  NormStep step(shape, dtype, setup.device);
  SoloCommunicator solo;
  SyncBatchNorm sync(solo);

  const at::Tensor expected = step.run(nullptr), expected_grad = step.input.grad().clone();
  const at::Tensor found = step.run(&sync);
  figures.add("output differs by" + of, largest_difference(found, expected), "");
  figures.add("gradient differs by" + of, largest_difference(step.input.grad(), expected_grad), "");

  const int rounds = setup.tiny ? 1 : 5, calls = setup.tiny ? 2 : 10;
  const CallTime native = time_calls(setup.device, rounds, calls, [&] { step.run(nullptr); });
  const CallTime synced = time_calls(setup.device, rounds, calls, [&] { step.run(&sync); });
  figures.add("native" + of, native.done * 1e3, "ms");
  figures.add("synchronised" + of, synced.done * 1e3, "ms");
  figures.add("synchronised over native" + of, synced.done / native.done, "x");
  figures.add("host time native" + of, native.told * 1e6, "us");
  figures.add("host time synchronised" + of, synced.told * 1e6, "us");
  if (setup.device.is_cpu()) return;
  const double native_mib = peak_mib(step, nullptr, setup.device);
  const double synced_mib = peak_mib(step, &sync, setup.device);
  figures.add("memory of a step native" + of, native_mib, "MiB");
  figures.add("memory of a step synchronised" + of, synced_mib, "MiB");
}

}  // namespace

Figures measure_sync_batch_norm(const Setup& setup) {
  Figures figures;
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) compare(figures, setup, dtype);
  return figures;
}

}  // namespace cxtrain::gpu_bench
