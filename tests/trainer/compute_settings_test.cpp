#include "cxtrain/trainer/compute_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <cstdlib>
#include "support/catch.h"

using namespace cxtrain;

namespace {

/// LibTorch's switches are the process's; they are put back.
class KeepSettings {
 public:
  ~KeepSettings() {
    context_.setBenchmarkCuDNN(benchmark_);
    context_.setDeterministicCuDNN(deterministic_cudnn_);
    context_.setDeterministicAlgorithms(deterministic_, warn_only_);
    context_.setFloat32MatmulPrecision("highest");
    at::set_num_threads(threads_);
  }

 private:
  at::Context& context_ = at::globalContext();
  bool benchmark_ = context_.benchmarkCuDNN(), deterministic_cudnn_ = context_.deterministicCuDNN();
  bool deterministic_ = context_.deterministicAlgorithms();
  bool warn_only_ = context_.deterministicAlgorithmsWarnOnly();
  int threads_ = at::get_num_threads();
};

}  // namespace

TEST_CASE("the plan's switches reach LibTorch", "[trainer]") {
  const KeepSettings keep;
  const at::Context& context = at::globalContext();
  Plan plan;
  plan.benchmark = true;
  plan.deterministic = plan.deterministic_warn_only = true;
  plan.float32_matmul_precision = MatmulPrecision::high;
  apply_compute_settings(plan, {}, at::kCPU);
  CHECK(context.benchmarkCuDNN());
  CHECK(context.deterministicAlgorithms());
  CHECK(context.deterministicAlgorithmsWarnOnly());
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGH);
  REQUIRE(std::getenv("CUBLAS_WORKSPACE_CONFIG") != nullptr);

  plan = {};
  apply_compute_settings(plan, {}, at::kCPU);
  CHECK_FALSE(context.benchmarkCuDNN());
  CHECK_FALSE(context.deterministicAlgorithms());
  CHECK(context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGH);  // as it was
}

TEST_CASE("who leaves open how exact float32 products are hears of TF32, where the device has it",
          "[trainer]") {
  Plan plan;
  CHECK(tf32_hint(plan, true).find("--float32_matmul_precision high") != std::string::npos);
  CHECK(tf32_hint(plan, false).empty());
  plan.float32_matmul_precision = MatmulPrecision::highest;
  CHECK(tf32_hint(plan, true).empty());
  plan = {};
  plan.precision = "bf16-mixed";
  CHECK(tf32_hint(plan, true).empty());
}

TEST_CASE("bfloat16 without instructions for it is warned of", "[trainer]") {
  CHECK(slow_precision_warning("bf16-mixed", false).find("32-true") != std::string::npos);
  CHECK_FALSE(slow_precision_warning("bf16-true", false).empty());
  CHECK(slow_precision_warning("bf16-mixed", true).empty());
  CHECK(slow_precision_warning("16-mixed", false).empty());
}
