#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>

#include "cxtrain/cluster/world.h"
#include "cxtrain/precision/grad_scaler.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::ToyData;

/// Notes the dtypes that it meets.
class Observer : public test::Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    input = batch[0].scalar_type();
    hidden = first->forward(batch[0]).scalar_type();
    return Regression::training_step(batch, idx);
  }
  at::ScalarType input = at::kBool, hidden = at::kBool;
};

TEST_CASE("each precision computes in its dtypes and learns what float32 learns") {
  struct Row {
    const char* name;
    at::ScalarType parameter, input, hidden;
    double tolerance;
  };
  const Row row = GENERATE(Row{"32-true", at::kFloat, at::kFloat, at::kFloat, 1e-7},
                           Row{"64-true", at::kDouble, at::kDouble, at::kDouble, 1e-4},
                           Row{"bf16-mixed", at::kFloat, at::kFloat, at::kBFloat16, 0.05},
                           Row{"16-mixed", at::kFloat, at::kFloat, at::kHalf, 0.02},
                           Row{"bf16-true", at::kBFloat16, at::kBFloat16, at::kBFloat16, 0.1},
                           Row{"16-true", at::kHalf, at::kHalf, at::kHalf, 0.05});
  CAPTURE(row.name);
  ToyData data(64, 8, 16);
  SoloWorld world;
  const auto train = [&](const std::string& precision, auto& model) {
    const test::TempDir dir;
    Options options = test::quiet(dir.path());
    options.trainer.precision = precision;
    options.optimizer = {"sgd", {{"lr", "0.05"}}};
    Trainer trainer(world, options);
    return trainer.fit(model, data);
  };
  Observer model;
  test::Regression reference;
  const RunSummary run = train(row.name, model);
  train("32-true", reference);
  CHECK(run.precision == row.name);
  CHECK(model.first->weight.scalar_type() == row.parameter);
  CHECK(model.input == row.input);
  CHECK(model.hidden == row.hidden);
  CAPTURE((test::flat_parameters(model) - test::flat_parameters(reference)).abs().max().item<double>());
  CHECK(at::allclose(test::flat_parameters(model), test::flat_parameters(reference), row.tolerance,
                     row.tolerance));
}

/// Its gradients are so many times as large.
class Steep : public test::Regression {
 public:
  explicit Steep(double factor) : factor_(factor) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    return Regression::training_step(batch, idx).loss * factor_;
  }

 private:
  double factor_;
};

TEST_CASE("a training that skips too many steps in a row ends, and names a gradient") {
  SoloWorld world;
  ToyData data(256, 8);
  const auto train = [&](double factor, std::int64_t most) {
    const test::TempDir dir;
    Options options = test::quiet(dir.path());
    options.trainer.precision = "16-mixed";
    options.trainer.max_skipped_steps = most;
    Steep model(factor);
    Trainer trainer(world, options);
    return trainer.fit(model, data).global_step;
  };
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK_THAT(test::error_of([&] { train(infinite, 7); }),
             test::contains(test::code(MessageCode::not_finite)) && test::contains("epoch 0") &&
                 test::contains("step 6") && test::contains("7 steps") && test::contains("first.weight"));
  CHECK(train(infinite, 0) == 32);
  CHECK(train(1e4, 100) == 32);  // the scale has to come down, and does
}

TEST_CASE(
    "the loss scale halves after an overflow, doubles after a long good spell, and a skipped step changes "
    "nothing") {
  GradScaler scaler(at::kCPU, {.initial_scale = 8, .growth_interval = 3});
  std::vector<at::Tensor> gradients{at::full({3}, 16.0), at::full({2}, 8.0, at::kDouble)};
  at::Tensor found = scaler.none_found();
  scaler.unscale(gradients, found);
  CHECK(found.item<float>() == 0);
  CHECK(gradients[0][0].item<float>() == 2);
  CHECK(gradients[1][0].item<float>() == 1);
  for (int i = 0; i < 3; ++i) scaler.update();
  CHECK(scaler.current_scale() == 16);

  gradients[0][1] = std::numeric_limits<float>::infinity();
  scaler.unscale(gradients, found);
  CHECK(found.item<float>() == 1);
  scaler.note(found);
  scaler.note(scaler.none_found());  // another optimizer found no overflow
  scaler.update();
  CHECK(scaler.current_scale() == 8);
  CHECK(scaler.growth_tracker() == 0);

  scaler.restore(1024, 2);
  gradients[0].fill_(1);
  found.zero_();
  scaler.unscale(gradients, found);
  scaler.note(found);
  scaler.update();
  CHECK(scaler.current_scale() == 2048);
}

}  // namespace
}  // namespace cxtrain
