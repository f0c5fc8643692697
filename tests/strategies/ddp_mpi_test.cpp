#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <torch/nn/modules/batchnorm.h>

#include <type_traits>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Exact;
using test::Regression;
using test::ToyData;

/// Parameters after training on all ranks with this batch size a rank.
template <class Model>
at::Tensor train_together(ToyData& data, Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  Trainer trainer(test_world(), options);
  Model model;
  trainer.fit(model, data);
  return test::flat_parameters(model);
}

/// The same on this rank alone.
template <class Model>
at::Tensor train_alone(ToyData& data, Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  SoloWorld world;
  Trainer trainer(world, options);
  Model model;
  trainer.fit(model, data);
  return test::flat_parameters(model);
}

Options twenty_steps() {
  Options options = test::quiet("");
  options.trainer.max_epochs = -1;
  options.trainer.max_steps = 20;
  return options;
}

TEST_CASE("ddp on N ranks equals single with an N times larger batch") {
  const int ranks = test_world().size();
  const std::string precision = GENERATE("32-true", "64-true");
  ToyData shards(64 * ranks, 8), whole(64 * ranks, 8 * ranks);
  Options options = twenty_steps();
  options.trainer.precision = precision;
  CHECK(at::allclose(train_together<Regression>(shards, options), train_alone<Regression>(whole, options),
                     1e-5, 1e-7));
}

TEST_CASE("ddp equals single bit for bit where gradients are exact") {
  const int ranks = test_world().size();
  if (ranks == 3) return test::skip_for_ranks("a third is not exact");
  ToyData shards(64 * ranks, 8, 0, true), whole(64 * ranks, 8 * ranks, 0, true);
  CHECK(at::equal(train_together<Exact>(shards, twenty_steps()), train_alone<Exact>(whole, twenty_steps())));
}

TEST_CASE("bucket sizes and overlap do not change a bit of the result") {
  const int ranks = test_world().size();
  ToyData data(64 * ranks, 8);
  const at::Tensor reference = train_together<Regression>(data, twenty_steps());
  for (const std::int64_t bytes : {std::int64_t{1} << 10, std::int64_t{1} << 20, std::int64_t{0}}) {
    for (const bool overlap : {false, true}) {
      CAPTURE(bytes, overlap);
      Options options = twenty_steps();
      options.trainer.strategy = "ddp";
      for (const char* name : {"first_bucket_bytes", "bucket_bytes"})
        options.strategy.args[name] = std::to_string(bytes);
      options.strategy.args["overlap"] = overlap ? "true" : "false";
      CHECK(at::equal(train_together<Regression>(data, options), reference));
    }
  }
}

TEST_CASE("a program that gives a strategy wrong arguments gets them back, all at once") {
  Options options = test::quiet("");
  options.trainer.strategy = "ddp";
  options.strategy.args = {{"bucket_bytes", "many"}, {"overlaps", "true"}};
  CHECK_THAT(test::error_of([&] { Trainer(test_world(), options); }),
             test::contains(test::code(MessageCode::invalid_value)) &&
                 test::contains("strategy.bucket_bytes:") && test::contains("'many'") &&
                 test::contains("--strategy.overlap"));
}

TEST_CASE("parameters that no rank used are left alone where the strategy is asked to") {
  /// Its weights decay where they have a gradient, if only of zeros.
  struct Unused : Regression {
    Unused() : Regression({.optimizer = AdamW{.lr = 0.01, .weight_decay = 0.5}}) {
      unused = register_module("unused", torch::nn::Linear(2, 2));
    }
    torch::nn::Linear unused{nullptr};
  };
  const auto is_left_alone = [](Options options) {
    const test::TempDir dir;
    options.trainer.default_root_dir = dir.path();
    ToyData data(8 * test_world().size(), 8);
    Trainer trainer(test_world(), options);
    Unused model;
    const at::Tensor before = model.unused->weight.detach().clone();
    trainer.fit(model, data);
    return at::equal(model.unused->weight, before);
  };
  Options options = test::quiet("");
  options.trainer.strategy = "ddp_find_unused_parameters_true";
  CHECK(is_left_alone(options));
  options.trainer.strategy = "ddp";
  CHECK_FALSE(is_left_alone(options));
}

/// As `Regression`, with an optimizer of the test's choice.
template <int kChoice>
struct Chosen : Regression {
  static OptimizerConfig choose() {
    if (kChoice == 0) return AdamW{.lr = 0.01};
    if (kChoice == 1) return Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true};
    return Rmsprop{};
  }
  Chosen() : Regression({.optimizer = choose()}) {}
};

TEST_CASE("dividing the optimizer's work does not change a bit of the result") {
  const int ranks = test_world().size();
  ToyData data(64 * ranks, 8);
  Options options = twenty_steps();
  options.trainer.strategy = "ddp";
  SECTION("gradients clipped") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  SECTION("bfloat16 parameters") { options.trainer.precision = "bf16-true"; }
  SECTION("scaled float16") { options.trainer.precision = "16-mixed"; }
  SECTION("master weights") {
    options.trainer.precision = "16-mixed";
    options.trainer.amp_level = "O2";
  }
  SECTION("weights averaged, learning rate found") {
    options.trainer.max_epochs = 5;
    options.trainer.stochastic_weight_avg = options.trainer.auto_lr_find = true;
  }
  const auto same_either_way = [&]<class Model>(std::type_identity<Model>) {
    options.strategy.args["shard_optimizer"] = "false";
    const at::Tensor whole = train_together<Model>(data, options);
    options.strategy.args["shard_optimizer"] = "true";
    return at::equal(train_together<Model>(data, options), whole);
  };
  CHECK(same_either_way(std::type_identity<Chosen<0>>()));
  CHECK(same_either_way(std::type_identity<Chosen<1>>()));
  CHECK(same_either_way(std::type_identity<Chosen<2>>()));
}

TEST_CASE("a mistake that one rank makes about its optimizer is every rank's error") {
  struct Mistaken : Regression {
    explicit Mistaken(bool groups) : in_groups(groups) {}
    Optimizers configure_optimizers() override {
      OptimizerSetup setup = Regression::configure_optimizers().entries().front().setup;
      if (test_world().rank() != test_world().size() - 1) return setup;
      if (!in_groups) throw ConfigError("model", "no optimizer today");
      setup.groups = {{.parameters = {at::randn({3}).requires_grad_()}}};
      return setup;
    }
    bool in_groups;
  };
  const bool in_groups = GENERATE(false, true);
  ToyData data(8 * test_world().size(), 8);
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.strategy = "ddp";
  options.strategy.args["shard_optimizer"] = "true";
  Trainer trainer(test_world(), options);
  Mistaken model(in_groups);
  CHECK_THAT(test::error_of([&] { trainer.fit(model, data); }),
             test::contains(in_groups ? "parameter group 0" : "no optimizer today"));
  test_world().barrier();
}

TEST_CASE(
    "ranks that choose different optimizers do not wait for each other, and the summary says that they "
    "differ") {
  // Large enough that Adam's work would be divided, and SGD's not.
  struct Divided : test::Regression {
    Divided() { wide = register_module("wide", torch::nn::Linear(6, 16384)); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return loss(batch) + wide->forward(batch[0]).mean();
    }
    Optimizers configure_optimizers() override {
      if (test_world().rank() % 2 == 0) return AdamW{.lr = 0.01};
      return Sgd{.lr = 0.01};
    }
    torch::nn::Linear wide{nullptr};
  };
  ToyData data(8 * test_world().size(), 8);
  const test::TempDir dir;
  Trainer trainer(test_world(), test::quiet(dir.path()));
  Divided model;
  const RunSummary run = trainer.fit(model, data);
  CHECK(run.global_step == 1);
  CHECK(run.parameters_equal_on_all_ranks == (test_world().size() == 1));
}

TEST_CASE("accumulating N micro-batches equals an N times larger batch") {
  const int ranks = test_world().size();
  ToyData small(64 * ranks, 4), large(64 * ranks, 16 * ranks);
  Options accumulating = twenty_steps();
  accumulating.trainer.accumulate_grad_batches = 4;
  CHECK(at::allclose(train_together<Regression>(small, accumulating),
                     train_alone<Regression>(large, twenty_steps()), 1e-5, 1e-7));
}

TEST_CASE("an uneven last batch counts every sample once with `exact`, like one process does") {
  const int ranks = test_world().size();
  const std::int64_t samples =
      24 * ranks + 1 + (ranks > 1);  // some ranks have one more, at 3 and 4 ranks some have none
  ToyData shards(samples, 8), whole(samples, 8 * ranks);
  Options options = twenty_steps();
  options.data.uneven = Uneven::exact;
  CHECK(at::allclose(train_together<Regression>(shards, options), train_alone<Regression>(whole, options),
                     1e-5, 1e-7));
}

TEST_CASE("ranks that skip an uneven batch are left out with the weight of their samples") {
  /// Trains with one sample, so that the mean over any samples is the same.
  class Skipping : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (batch.size < 8 && global_rank() > 0) return {};
      Batch same;
      same.size = batch.size;
      same.tensors = {at::ones({batch.size, 6}), at::ones({batch.size, 2})};
      return Regression::training_step(same, idx);
    }
  };
  const int ranks = test_world().size();
  const std::int64_t samples = 25 * ranks + 1;  // rank 0 has two samples of the last batch
  ToyData shards(samples, 8), whole(samples, 8 * ranks);
  Options options = twenty_steps();
  options.data.uneven = Uneven::exact;
  CHECK(at::allclose(train_together<Skipping>(shards, options), train_alone<Skipping>(whole, options), 1e-5,
                     1e-7));
}

TEST_CASE("one rank does not round gradients, which it sends to nobody") {
  ToyData data(64, 8);
  Options options = twenty_steps();
  const at::Tensor exact = train_alone<Regression>(data, options);
  options.trainer.strategy = "ddp";
  options.strategy.args["comm_hook"] = GENERATE("bf16", "fp16", "auto");
  CHECK(at::equal(train_alone<Regression>(data, options), exact));
}

TEST_CASE("clipping by norm and by value agrees with one process") {
  const int ranks = test_world().size();
  ToyData shards(64 * ranks, 8), whole(64 * ranks, 8 * ranks);
  Options options = twenty_steps();
  options.trainer.gradient_clip_val = 0.05;
  options.trainer.gradient_clip_algorithm =
      GENERATE(GradientClipAlgorithm::norm, GradientClipAlgorithm::value);
  const at::Tensor together = train_together<Regression>(shards, options);
  CHECK(at::allclose(together, train_alone<Regression>(whole, options), 1e-5, 1e-7));
  CHECK_FALSE(at::allclose(together, train_together<Regression>(shards, twenty_steps()), 1e-5, 1e-7));
}

TEST_CASE("validation means are over all samples of all ranks, also where ranks have different numbers") {
  const int ranks = test_world().size();
  ToyData shards(8 * ranks, 8, 13), whole(8 * ranks, 8 * ranks, 13);
  Options options = test::quiet("");
  const test::TempDir dir, alone_dir;
  options.trainer.default_root_dir = dir.path();
  Trainer trainer(test_world(), options);
  Regression model;
  const RunSummary together = trainer.fit(model, shards);
  options.trainer.default_root_dir = alone_dir.path();
  SoloWorld solo;
  Trainer trainer_alone(solo, options);
  Regression model_alone;
  const RunSummary alone = trainer_alone.fit(model_alone, whole);
  CHECK(together.metrics.at("val_mean") == Catch::Approx(alone.metrics.at("val_mean")).epsilon(1e-5));
  CHECK(together.metrics.at("val_loss") == Catch::Approx(alone.metrics.at("val_loss")).epsilon(1e-4));
  CHECK(together.world_size == ranks);
  CHECK(together.parameters_sha256.size() == 64);
}

TEST_CASE("ranks start from rank 0's parameters") {
  ToyData data(8 * test_world().size(), 8);
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.max_steps = 1;
  Trainer trainer(test_world(), options);
  Regression model;
  {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model.parameters()) parameter.add_(test_world().rank());
  }
  CHECK(trainer.fit(model, data).parameters_equal_on_all_ranks == true);
  CHECK(model.training_steps == 1);
}

struct NormalisedRegression : test::Regression {
  NormalisedRegression() { norm = register_module("norm", torch::nn::BatchNorm1d(6)); }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return second->forward(at::tanh(first->forward(norm->forward(batch[0])))).mean();
  }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST_CASE("buffers that the forward pass changes are rank 0's on every rank") {
  ToyData data(32 * test_world().size(), 8);
  const test::TempDir dir;
  Trainer trainer(test_world(), test::quiet(dir.path()));
  NormalisedRegression model;
  CHECK(trainer.fit(model, data).parameters_equal_on_all_ranks == true);  // buffers included
  CHECK(model.norm->num_batches_tracked.item<std::int64_t>() == 4);
  CHECK(model.norm->running_mean.abs().sum().item<double>() > 0);
}

TEST_CASE("broadcast_buffers false leaves each rank its own buffers between the start and the end") {
  /// Its buffer holds the rank that wrote it last; each step begins by looking.
  struct Marked : Regression {
    Marked() { mark = register_buffer("mark", at::full({1}, test_world().rank(), at::kLong)); }
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      seen.push_back(mark.item<std::int64_t>());
      mark.fill_(test_world().rank() + 10);
      return Regression::training_step(batch, idx);
    }
    at::Tensor mark;
    std::vector<std::int64_t> seen;
  };
  const bool sent = GENERATE(true, false);
  CAPTURE(sent);
  ToyData data(24 * test_world().size(), 8);
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.strategy = "ddp";
  options.strategy.args["broadcast_buffers"] = sent ? "true" : "false";
  Trainer trainer(test_world(), options);
  Marked model;
  CHECK(trainer.fit(model, data).parameters_equal_on_all_ranks == true);
  const std::int64_t between = sent ? 10 : test_world().rank() + 10;
  CHECK(model.seen == std::vector<std::int64_t>{0, between, between});
  CHECK(model.mark.item<std::int64_t>() == 10);
}

TEST_CASE("buffers agree at the end of a run whose last forward passes no step has followed") {
  struct SkipsTheLast : NormalisedRegression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      const at::Tensor loss = NormalisedRegression::training_step(batch, idx).loss;
      return idx < 7 ? loss : at::Tensor();
    }
  };
  ToyData data(64 * test_world().size(), 8);
  const test::TempDir dir;
  Trainer trainer(test_world(), test::quiet(dir.path()));
  SkipsTheLast model;
  const RunSummary run = trainer.fit(model, data);
  CHECK(run.global_step == 7);
  CHECK(run.parameters_equal_on_all_ranks == true);
}

TEST_CASE(
    "a run that stops after a validation in the middle of an accumulation ends with the same buffers "
    "everywhere") {
  struct StopAtValidation : Callback {
    void on_validation_end(Run& run) override { run.request_stop("enough"); }
  };
  ToyData data(64 * test_world().size(), 4, 8);
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.accumulate_grad_batches = 4;
  options.trainer.val_check_interval = {std::int64_t{2}};
  options.trainer.max_epochs = 3;
  Trainer trainer(test_world(), options);
  trainer.add_callback(std::make_unique<StopAtValidation>());
  NormalisedRegression model;
  const RunSummary run = trainer.fit(model, data);
  CHECK(run.global_step == 1);  // the step that was under way is made
  CHECK(run.parameters_equal_on_all_ranks == true);
}

TEST_CASE("a wish to stop on one rank stops all at the same step") {
  struct StopOnLast : Callback {
    void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
      if (run.rank() == run.world().size() - 1 && run.global_step() == 3) run.request_stop("enough");
    }
  };
  ToyData data(64 * test_world().size(), 4);
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.max_epochs = 10;
  Trainer trainer(test_world(), options);
  trainer.add_callback(std::make_unique<StopOnLast>());
  Regression model;
  CHECK(trainer.fit(model, data).global_step == 3);
}

}  // namespace
}  // namespace cxtrain
