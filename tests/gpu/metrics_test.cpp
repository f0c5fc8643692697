#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>

#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

/// Logs tensors of the GPU: one metric in inference mode, outside of it and in it again, and one at a hook
/// that runs outside. 3 batches.
class LogsBothWays : public test::Regression {
 public:
  void validation_step(const Batch&, std::int64_t idx) override {
    CHECK(c10::InferenceMode::is_enabled());
    const c10::InferenceMode mode(idx != 1);
    log("step", on_gpu(1), {.reduce_fx = ReduceFx::sum});
  }
  void on_validation_batch_end(const Batch&, std::int64_t) override {
    CHECK_FALSE(c10::InferenceMode::is_enabled());
    log("end", on_gpu(10), {.reduce_fx = ReduceFx::sum});
  }

 private:
  at::Tensor on_gpu(double value) const {
    return at::full({}, value, second->weight.options().requires_grad(false));
  }
};

TEST_CASE("a metric of the GPU's may be logged in inference mode and outside of it", "[gpu]") {
  Options options = test::on_gpus("single", 1);
  options.trainer.max_steps = 4;
  options.trainer.max_epochs = 1;
  SoloWorld world;
  Trainer trainer(world, options);
  test::ToyData data(32, 8, 20);
  LogsBothWays model;
  const RunSummary summary = trainer.fit(model, data);
  CHECK(summary.metrics.at("step") == 3);
  CHECK(summary.metrics.at("end") == 30);
}

}  // namespace
}  // namespace cxtrain
