#include "support/split_model.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <array>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/optim/clip.h"
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/tensor/norms.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "support/without_blocks.h"

namespace cxtrain {
namespace {

using test::code;
using test::contains;
using test::error_of;
using test::Regression;
using test::SplitRegression;

/// A second device that every machine has: tensors without memory.
const at::Device kMeta{at::kMeta};

/// Asks for two parts and keeps the answers; its layers stay where they are.
struct Asking : Regression {
  void place_parts() override { given = {part_device(0), part_device(1)}; }
  std::vector<at::Device> given;
};

TEST_CASE("parts are given the rank's devices in order, and the last one where there are too few") {
  Asking model;
  const PrecisionPolicy precision = precision_policy("64-true");
  const std::array one{at::Device(at::kCPU)};
  trainable(model).place(one, precision);
  CHECK(model.given == std::vector<at::Device>{at::kCPU, at::kCPU});
  const std::array two{at::Device(at::kCPU), kMeta};
  trainable(model).place(two, precision);
  CHECK(model.given == std::vector<at::Device>{at::kCPU, kMeta});
  CHECK(model.device() == at::kCPU);
  CHECK(model.to_part(at::ones({2}), 1).device() == kMeta);
  CHECK(model.first->weight.scalar_type() == at::kDouble);
}

TEST_CASE("devices that a model leaves idle are refused") {
  test::WithoutBlocks whole;
  Asking split;
  const PrecisionPolicy precision = precision_policy("32-true");
  const std::array two{at::Device(at::kCPU), kMeta};
  const std::array three{at::Device(at::kCPU), kMeta, at::Device(at::kCPU)};
  REQUIRE_THAT(error_of([&] { trainable(whole).place(two, precision); }),
               contains(code(MessageCode::wrong_ranks)) && contains("--devices_per_rank") &&
                   contains("2 devices") && contains("place_parts"));
  REQUIRE_THAT(
      error_of([&] { trainable(split).place(three, precision); }),
      contains(code(MessageCode::wrong_ranks)) && contains("--devices_per_rank 2") && contains("3 devices"));
}

template <class Model>
at::Tensor train(int devices_per_rank, const std::string& precision) {
  const test::TempDir dir;
  SoloWorld world;
  Options options = test::quiet(dir.path());
  options.trainer.accelerator = "cpu";
  options.trainer.devices_per_rank = devices_per_rank;
  options.trainer.precision = precision;
  options.trainer.gradient_clip_val = 0.1;
  test::ToyData data(40, 8);
  Trainer trainer(world, options);
  Model model;
  trainer.fit(model, data);
  return test::flat_parameters(model);
}

TEST_CASE("a split model trains as the whole one does") {
  const std::string precision = GENERATE("32-true", "16-mixed", "bf16-mixed");
  CAPTURE(precision);
  const at::Tensor whole = train<Regression>(1, precision);
  CHECK(at::equal(train<SplitRegression>(2, precision), whole));
  CHECK(at::equal(train<Regression>(2, precision), whole));
}

TEST_CASE("blocks that share a parameter do not lie on two devices") {
  struct TiedImpl : torch::nn::Module {
    explicit TiedImpl(const at::Tensor& tied) { weight = register_parameter("weight", tied); }
    at::Tensor forward(const at::Tensor& input) { return input.matmul(weight); }
    at::Tensor weight;
  };
  struct Shares : ChainModule {
    Shares() {
      const auto first = add_block("first", torch::nn::Linear(4, 4));
      add_block("last", torch::nn::ModuleHolder<TiedImpl>(first->weight));
    }
    StepOutput training_step(const Batch&, std::int64_t) override { return StepOutput{}; }
    Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
  };
  Shares model;
  const PrecisionPolicy precision = precision_policy("32-true");
  CHECK_THAT(error_of([&] {
               trainable(model).place(std::array{at::Device(at::kCPU), kMeta}, precision);
             }),
             contains("`first`") && contains("`last`") && contains("share a parameter"));
  CHECK_NOTHROW(trainable(model).place(std::array{at::Device(at::kCPU)}, precision));
}

TEST_CASE("gradients of several kinds are clipped by their common norm and unscaled together") {
  const at::Tensor single = at::full({1}, 3.0, at::kFloat), wide = at::full({1}, 4.0, at::kDouble);
  const std::array gradients{single, wide};
  clip_by_norm(gradients, total_norm(norms(gradients, 2), 2), 1.0);
  CHECK(single.item<double>() == Catch::Approx(0.6).epsilon(1e-5));
  CHECK(wide.item<double>() == Catch::Approx(0.8).epsilon(1e-5));

  GradScaler scaler(at::kCPU, {.initial_scale = 4});
  const std::array scaled{at::full({1}, 8.0, at::kFloat), at::full({1}, 12.0, at::kHalf)};
  at::Tensor found = scaler.none_found();
  scaler.unscale(scaled, found);
  CHECK(scaled[0].item<double>() == 2.0);
  CHECK(scaled[1].item<double>() == 3.0);
  CHECK(found.item<float>() == 0);
}

}  // namespace
}  // namespace cxtrain
