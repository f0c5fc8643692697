#include "cxtrain/trainer/compute_settings.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>

#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

bool processor_has_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;  // not known
#endif
}

}  // namespace

std::string slow_precision_warning(std::string_view precision, bool processor_has_bf16) {
  if (processor_has_bf16 || !precision.starts_with("bf16")) return {};
  return "trainer.precision: this processor has no instructions for bfloat16, which " +
         std::string(precision) + " makes it emulate: several times slower than --precision 32-true";
}

std::string tf32_hint(const Plan& plan, bool has_tf32) {
  if (!has_tf32 || plan.precision != "32-true" || plan.float32_matmul_precision) return {};
  return "this GPU multiplies float32 several times faster as TF32, with 10 bits of mantissa: "
         "--float32_matmul_precision high (highest keeps it exact, without this hint)";
}

void apply_compute_settings(const Plan& plan, const WorldFacts& facts, c10::Device device) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(plan.benchmark);
  context.setDeterministicCuDNN(plan.deterministic);
  context.setDeterministicAlgorithms(plan.deterministic, plan.deterministic_warn_only);
  if (plan.float32_matmul_precision) {
    context.setFloat32MatmulPrecision(std::string(word_of(*plan.float32_matmul_precision)));
  }
  // cuBLAS is deterministic only with a fixed workspace, and reads this when CUDA starts.
  if (plan.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->setDevice(device);
  if (device.is_cpu() && facts.rank == 0) {
    const std::string slow = slow_precision_warning(plan.precision, processor_has_bf16());
    if (!slow.empty()) log_warning(slow);
  }
}

}  // namespace cxtrain
