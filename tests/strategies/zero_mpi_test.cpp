#include <ATen/ops/equal.h>
#include <torch/nn/modules/conv.h>

#include <functional>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/normalised_model.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// `zero` gives the parameters of `ddp`, to the bit, whatever its ranks divide.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// Whether the ranks of this test can have one copy of the parameters.
bool stage_3_is_possible() { return test_world().size() == 1 || test_world().facts().max_local_size > 1; }

Options with_stage(Options options, int stage) {
  options.trainer.strategy = "zero";
  options.strategy.args["stage"] = std::to_string(stage);
  options.strategy.args["bucket_bytes"] = "3000";  // several rows
  return options;
}

Options some_epochs() {
  Options options = test::quiet("");
  options.trainer.max_epochs = 3;
  return options;
}

template <class Model>
std::string sha_of(Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  ToyData data(20 * test_world().size() + 1, 8);
  Trainer trainer(test_world(), options);
  Model model;
  return trainer.fit(model, data).parameters_sha256;
}

/// Large enough to be cut between ranks.
template <class Optimizer>
struct CutModel : Regression {
  CutModel() : Regression({.optimizer = Optimizer{.lr = 0.02}}, 700) {}
};

template <class Model>
void check_equals_ddp(const Options& options) {
  Options ddp = options;
  ddp.trainer.strategy = "ddp";
  const std::string expected = sha_of<Model>(ddp);
  for (int stage = 1; stage <= (stage_3_is_possible() ? 3 : 2); ++stage) {
    CAPTURE(stage);
    CHECK(sha_of<Model>(with_stage(options, stage)) == expected);
  }
}

TEST_CASE("the parameters of zero are ddp's to the bit, in every precision") {
  Options options = some_epochs();
  options.trainer.precision = GENERATE("32-true", "64-true", "bf16-mixed", "bf16-true", "16-mixed");
  CAPTURE(options.trainer.precision);
  check_equals_ddp<CutModel<AdamW>>(options);
}

TEST_CASE("the parameters of zero are ddp's to the bit, whatever is done to gradients") {
  Options options = some_epochs();
  SECTION("master weights") {
    options.trainer.precision = "16-mixed";
    options.trainer.amp_level = "O2";
  }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  SECTION("clipped by norm") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("clipped by value") {
    options.trainer.gradient_clip_val = 0.01;
    options.trainer.gradient_clip_algorithm = GradientClipAlgorithm::value;
  }
  SECTION("clipped by norm, accumulated, with a loss scale") {
    options.trainer.precision = "16-mixed";
    options.trainer.accumulate_grad_batches = 2;
    options.trainer.gradient_clip_val = 0.05;
  }
  SECTION("a last batch with a sample for one rank only") { options.data.uneven = Uneven::exact; }
  check_equals_ddp<CutModel<Adam>>(options);
}

TEST_CASE("zero trains batch norms over all ranks as ddp does") {
  Options options = some_epochs();
  options.data.uneven = Uneven::drop;
  options.trainer.sync_batchnorm = true;
  check_equals_ddp<test::Normalised>(options);
}

TEST_CASE("parameters that cannot be divided have whole gradients under zero") {
  /// Its convolution's weight is not in row-major order.
  struct Mixed : CutModel<AdamW> {
    Mixed() {
      conv = register_module("conv", torch::nn::Conv2d(2, 3, 2));
      conv->weight.set_data(conv->weight.detach().contiguous(at::MemoryFormat::ChannelsLast));
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor images = batch[0].narrow(1, 0, 2).reshape({-1, 2, 1, 1}).expand({-1, 2, 2, 2});
      return loss(batch).add(conv->forward(images).square().mean());
    }
    torch::nn::Conv2d conv{nullptr};
  };
  Options options = some_epochs();
  options.trainer.gradient_clip_val = 0.05;
  check_equals_ddp<Mixed>(options);
}

/// One of its layers has a gradient on rank 0 only, in every second step.
struct SometimesUnused : CutModel<AdamW> {
  SometimesUnused() { extra = register_module("extra", torch::nn::Linear(6, 300)); }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    at::Tensor value = loss(batch);
    if (idx % 2 == 1 && global_rank() == 0) value = value.add(extra->forward(batch[0]).square().mean());
    return value;
  }
  torch::nn::Linear extra{nullptr};
};

TEST_CASE("parameters that no rank used have no gradient under zero either, if asked to") {
  Options options = some_epochs();
  options.strategy.args["find_unused_parameters"] = GENERATE("true", "false");
  check_equals_ddp<SometimesUnused>(options);
}

/// Its first layer is frozen, and one of its tensors is trained from the second epoch on.
struct PartlyFrozen : CutModel<Adam> {
  PartlyFrozen() {
    for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(false);
  }
  void on_train_epoch_start() override {
    if (current_epoch() == 1) first->weight.set_requires_grad(true);
  }
};

TEST_CASE("frozen parameters are divided, and are trained as under ddp once they are not frozen") {
  check_equals_ddp<PartlyFrozen>(some_epochs());
}

TEST_CASE("a rank's whole gradients are gone after backward from stage 2 on") {
  struct Looks : CutModel<AdamW> {
    void on_after_backward() override { has_gradient = first->weight.grad().defined(); }
    bool has_gradient = false;
  };
  for (int stage = 1; stage <= (stage_3_is_possible() ? 3 : 2); ++stage) {
    const test::TempDir dir;
    Options options = with_stage(some_epochs(), stage);
    options.trainer.default_root_dir = dir.path();
    ToyData data(16 * test_world().size(), 8);
    Trainer trainer(test_world(), options);
    Looks model;
    trainer.fit(model, data);
    // Backward has completed the parameter's row, and the rank has dropped the gradient, before the hook.
    CHECK_FALSE((stage > 1 && test_world().size() > 1 && model.first->weight.grad().defined()));
    CHECK((stage == 1 || test_world().size() == 1) == model.has_gradient);
  }
}

TEST_CASE("zero refuses an unsupported training on all ranks, with a cure") {
  if (test_world().size() == 1) return test::skip_for_ranks("one rank divides nothing");
  SECTION("an optimizer that updates whole parameters") {
    struct Whole : Regression {
      Whole() : Regression({.optimizer = rmsprop()}) {}
    };
    CHECK_THAT(test::error_of([] { sha_of<Whole>(with_stage(some_epochs(), 2)); }),
               test::contains("whole parameters") && test::contains("--strategy ddp"));
  }
  SECTION("a stage that does not exist") {
    CHECK_THAT(test::error_of([] { Trainer(test_world(), with_stage(some_epochs(), 4)); }),
               test::contains("strategy.stage"));
  }
}

}  // namespace
}  // namespace cxtrain
