#include <torch/nn/modules/batchnorm.h>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/crawler.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Crawler;

/// Runs 8 steps of a model with these options.
void train(Module& model, test::ToyData& data, const std::string& precision, const std::string& level,
           const std::string& optimizer = "") {
  const test::TempDir dir;
  SoloWorld world;
  Options options = test::quiet(dir.path());
  options.trainer.precision = precision;
  if (!level.empty()) options.trainer.amp_level = level;
  options.trainer.max_epochs = -1;
  options.trainer.max_steps = 8;
  options.optimizer.name = optimizer;
  Trainer trainer(world, options);
  trainer.fit(model, data);
}

TEST_CASE("O2 adds up in its master weights what float16 weights round away") {
  test::ToyData data(64, 8);
  Crawler half, o2;
  train(half, data, "16-true", "");
  train(o2, data, "16-mixed", "O2");
  REQUIRE(half.weight.scalar_type() == at::kHalf);
  REQUIRE(o2.weight.scalar_type() == at::kHalf);
  CHECK(half.weight.item<float>() == 1.0f);
  CHECK(o2.weight.item<float>() == 1.0f - 8.0f / 8192);
}

/// Notes what dtypes it computes in, and has a parameter group of its own.
class Normed : public test::Regression {
 public:
  Normed() { norm = register_module("norm", torch::nn::BatchNorm1d(16)); }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    input = batch[0].scalar_type();
    const at::Tensor hidden = norm->forward(first->forward(batch[0]));
    const at::Tensor loss = torch::nn::functional::mse_loss(second->forward(hidden), batch[1]);
    loss_dtype = loss.scalar_type();
    return loss;
  }
  Optimizers configure_optimizers() override {
    return OptimizerSetup{.optimizer = AdamW{.lr = 0.01},
                          .groups = {{.parameters = second->parameters(), .lr = 0.0}}};
  }
  torch::nn::BatchNorm1d norm{nullptr};
  at::ScalarType input = at::kBool, loss_dtype = at::kBool;
};

TEST_CASE("O2 keeps batch norm and losses in float32, and honours parameter groups") {
  test::ToyData data(64, 8);
  Normed model;
  const at::Tensor frozen = model.second->weight.detach().to(at::kHalf).clone();
  const at::Tensor before = model.first->weight.detach().to(at::kHalf).clone();
  train(model, data, "16-mixed", "O2");
  CHECK(model.first->weight.scalar_type() == at::kHalf);
  CHECK(model.norm->weight.scalar_type() == at::kFloat);
  CHECK(model.norm->running_mean.scalar_type() == at::kFloat);
  CHECK(model.norm->num_batches_tracked.scalar_type() == at::kLong);  // a count is no measurement
  CHECK(model.norm->num_batches_tracked.item<std::int64_t>() == 8);
  CHECK(model.input == at::kHalf);
  CHECK(model.loss_dtype == at::kFloat);
  CHECK_FALSE(model.first->weight.equal(before));
  CHECK(model.second->weight.equal(frozen));  // its learning rate is 0
}

}  // namespace
}  // namespace cxtrain
