#include <c10/cuda/CUDAFunctions.h>

#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

using c10::cuda::SyncDebugMode;

/// For ten steps and what lies between them, whatever makes the host wait for the GPU throws. The first ones
/// are left out, which set things up, and the ends of epochs.
class ForbidsWaiting final : public Callback {
 public:
  explicit ForbidsWaiting(int& steps) : steps_(steps) {}
  ~ForbidsWaiting() override { forbid(false); }
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    const bool watch = run.global_step() >= 5 && run.global_step() < 15;
    forbid(watch);
    if (watch) ++steps_;
  }
  void on_exception(Run&, const std::exception&) override { forbid(false); }

 private:
  static void forbid(bool on) {
    c10::cuda::warning_state().set_sync_debug_mode(on ? SyncDebugMode::L_ERROR : SyncDebugMode::L_DISABLED);
  }
  int& steps_;
};

void train(const std::string& precision, bool read_in_step) {
  class Reads : public test::Regression {
   public:
    explicit Reads(bool does) : does_(does) {}
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      const at::Tensor loss = Regression::training_step(batch, idx).loss;
      if (does_) loss.item<double>();
      return loss;
    }

   private:
    bool does_;
  };
  Options options = test::on_gpus("single", 1);
  if (precision == "O2") options.trainer.amp_level = "O2";
  options.trainer.precision = precision == "O2" ? "16-mixed" : precision;
  options.trainer.gradient_clip_val = 0.1;
  options.trainer.log_every_n_steps = 1000;
  SoloWorld world;
  Trainer trainer(world, options);
  int steps = 0;
  trainer.add_callback(std::make_unique<ForbidsWaiting>(steps));
  test::ToyData data(480, 12);
  Reads model(read_in_step);
  trainer.fit(model, data);
  CHECK(steps == 10);
}

TEST_CASE("steps on a GPU do not wait for it, with clipping, scaler and master weights", "[gpu]") {
  for (const char* precision : {"32-true", "16-mixed", "bf16-mixed", "O2"}) {
    CAPTURE(precision);
    CHECK_NOTHROW(train(precision, false));
  }
}

TEST_CASE("a model that reads its loss in each step is seen to wait for the GPU", "[gpu]") {
  CHECK_THROWS_WITH(train("32-true", true), test::contains("synchronizing CUDA operation"));
}

}  // namespace
}  // namespace cxtrain
