#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <torch/nn/functional/dropout.h>
#include <torch/nn/modules/batchnorm.h>

#include <array>
#include <limits>

#include "cxtrain/callbacks/ema.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/toy_models.h"

/// What every strategy has to do alike, at any number of ranks, whatever it does with parameters in between.
/// A strategy joins by a line in `strategies()`.
namespace cxtrain {
namespace {

using test::Exact;
using test::Regression;
using test::ToyData;

struct Conforming {
  std::string name;
  std::vector<std::string> plugins = {};
  bool divided = false;         ///< its argument shard_optimizer is true
  int stage = 0;                ///< its argument
  std::string parameters = {};  ///< its argument; not empty: blocks are gathered
  int stages = 0;               ///< its argument; cannot be more than the model's blocks
  bool master_weights = true;   ///< has them (O2)
};

/// Those that run on the ranks of this test.
std::vector<Conforming> strategies() {
  std::vector<Conforming> all{
      {.name = "ddp"},
      {.name = "ddp", .divided = true},
      {.name = "zero", .stage = 1},
      {.name = "zero", .stage = 2},
      {.name = "owner", .plugins = {CXTRAIN_TEST_PLUGIN_DIR "/owner.so"}, .master_weights = false}};
  const bool share_memory = test_world().size() == 1 || test_world().facts().max_local_size > 1;
  if (share_memory) all.push_back({.name = "zero", .stage = 3});
  if (test_world().size() > 1) all.push_back({.name = "zero", .stage = 3, .parameters = "all"});
  if (test_world().facts().num_nodes > 1) all.push_back({.name = "zero", .stage = 3, .parameters = "node"});
  // Regression has three blocks.
  const int ranks = test_world().size();
  all.push_back({.name = "pipeline", .stages = ranks == 4 ? 2 : ranks});
  if (test_world().size() == 1) {
    all.push_back({.name = "single"});
    all.push_back({.name = "dp"});
  }
  return all;
}

/// A strategy on all ranks, or `single` on this one, with all ranks' batches in one.
struct Trained {
  RunSummary summary;
  at::Tensor parameters = {};
};

template <class Model>
Trained run(World& world, Options options, std::int64_t batch_size, bool whole_numbers,
            bool averages = false) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  const int ranks = test_world().size();
  ToyData data(48 * ranks, batch_size, 24, whole_numbers);
  Trainer trainer(world, options);
  trainer.set_replica_factory([] { return std::make_unique<Model>(); });
  if (averages) trainer.add_callback<Ema>({.decay = 0.9});
  Model model;
  Trained result{.summary = trainer.fit(model, data)};
  result.parameters = test::flat_parameters(model);
  return result;
}

Options under(const Conforming& strategy, Options options) {
  options.trainer.strategy = strategy.name;
  options.plugins = strategy.plugins;
  if (strategy.divided) options.strategy.args["shard_optimizer"] = "true";
  if (strategy.stages > 0) options.strategy.args["stages"] = std::to_string(strategy.stages);
  if (!strategy.parameters.empty()) options.strategy.args["parameters"] = strategy.parameters;
  if (strategy.stage > 0) options.strategy.args["stage"] = std::to_string(strategy.stage);
  return options;
}

/// Of a rank, so that a global batch has 8 samples for each rank. The stages of a pipeline share theirs.
std::int64_t batch_size(const Conforming& strategy) { return 8 * std::max(strategy.stages, 1); }

template <class Model>
Trained together(const Conforming& strategy, const Options& options, bool whole_numbers = false) {
  return run<Model>(test_world(), under(strategy, options), batch_size(strategy), whole_numbers);
}

template <class Model>
Trained alone(const Options& options, bool whole_numbers = false) {
  SoloWorld world;
  return run<Model>(world, options, 8 * test_world().size(), whole_numbers);
}

/// With parameters that are large enough to be cut, so that ranks hold parts of them, and an optimizer that
/// heeds the gradients' size.
class Wide : public Regression {
 public:
  Wide() : Regression({.optimizer = Sgd{.lr = 0.02, .momentum = 0.9}}, 300) {}
};

Options some_steps() {
  Options options = test::quiet("");
  options.trainer.max_epochs = 3;
  return options;
}

bool close(const Trained& a, const Trained& b) {
  return at::allclose(a.parameters, b.parameters, 1e-5, 1e-7);
}

TEST_CASE("every strategy equals single bit for bit where arithmetic is exact", "[conformance]") {
  if (test_world().size() == 3) return test::skip_for_ranks("a third is not exact");
  const Trained expected = alone<Exact>(some_steps(), /*whole_numbers=*/true);
  for (Conforming strategy : strategies()) {
    if (strategy.stages > 0) strategy.stages = 1;  // the model has one block
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = together<Exact>(strategy, some_steps(), /*whole_numbers=*/true);
    CHECK(found.summary.parameters_sha256 == expected.summary.parameters_sha256);
    CHECK(at::equal(found.parameters, expected.parameters));
    CHECK(found.summary.global_step == expected.summary.global_step);
  }
}

TEST_CASE("every strategy trains like single, whatever is done to gradients and parameters",
          "[conformance]") {
  Options options = some_steps();
  SECTION("as it is") {}
  SECTION("clipped by norm") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("clipped by value") {
    options.trainer.gradient_clip_val = 0.01;
    options.trainer.gradient_clip_algorithm = GradientClipAlgorithm::value;
  }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  SECTION("with blocks that backward runs again") { options.trainer.recompute_blocks = true; }
  SECTION("weights averaged") {
    options.trainer.max_epochs = 5;
    options.trainer.stochastic_weight_avg = true;
  }
  SECTION("learning rate found first") { options.trainer.auto_lr_find = true; }
  SECTION("an end that is not finite is noticed") { options.trainer.terminate_on_nan = true; }
  const Trained expected = alone<Wide>(options);
  for (const Conforming& strategy : strategies()) {
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = together<Wide>(strategy, options);
    CHECK(close(found, expected));
    CHECK(found.summary.metrics.at("val_loss") == Catch::Approx(expected.summary.metrics.at("val_loss")));
  }
}

/// Two optimizers, of which a stage of a pipeline may have no parameter.
class TwoOptimizers : public Wide {
 public:
  Optimizers configure_optimizers() override {
    return {{"first", Sgd{.lr = 0.05}, first->parameters()},
            {"second", Sgd{.lr = 0.02, .momentum = 0.9}, second->parameters(), /*its_frequency=*/2}};
  }
};

TEST_CASE("every strategy trains like single with several optimizers", "[conformance]") {
  Options options = some_steps();
  SECTION("as it is") {}
  SECTION("clipped by norm") { options.trainer.gradient_clip_val = 0.05; }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  const Trained expected = alone<TwoOptimizers>(options);
  for (const Conforming& strategy : strategies()) {
    if (strategy.name == "owner") continue;  // it has one optimizer
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = together<TwoOptimizers>(strategy, options);
    CHECK(close(found, expected));
  }
}

/// As `run` does it, with a last batch in every stage that has one sample, for rank 0.
Trained run_with_odd_sample(World& world, Options options, std::int64_t batch_size) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  options.data.uneven = Uneven::exact;
  const std::int64_t samples = 16 * test_world().size() + 1;
  ToyData data(samples, batch_size, samples);
  Trainer trainer(world, options);
  trainer.set_replica_factory([] { return std::make_unique<Wide>(); });
  Wide model;
  trainer.fit(model, data);
  Trained result{.summary = trainer.test(model, data)};
  trainer.predict(model, data);
  std::array rows{static_cast<double>(trainer.predictions().indices.size())};
  world.sum(rows);
  CHECK(rows[0] == static_cast<double>(samples));
  result.parameters = test::flat_parameters(model);
  return result;
}

TEST_CASE("every strategy averages parameters as single does", "[conformance]") {
  Options options = some_steps();
  const bool in_steps = GENERATE(false, true);  // validations between the micro-batches of a step
  options.trainer.val_check_interval = std::int64_t{in_steps ? 3 : 4};
  options.trainer.accumulate_grad_batches = 2;
  SoloWorld alone_world;
  const std::int64_t global = 8 * test_world().size();
  const Trained expected =
      run<Wide>(alone_world, options, global, /*whole_numbers=*/false, /*averages=*/true);
  CHECK_FALSE(close(run<Wide>(alone_world, options, global, /*whole_numbers=*/false), expected));
  for (const Conforming& strategy : strategies()) {
    if (strategy.name == "dp") continue;  // refused
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters, in_steps);
    const auto averaged = [&] {
      return run<Wide>(test_world(), under(strategy, options), batch_size(strategy),
                       /*whole_numbers=*/false, /*averages=*/true);
    };
    if (in_steps && strategy.stages > 1) {
      CHECK_THROWS_WITH(averaged(), test::contains("val_check_interval"));
      continue;
    }
    const Trained found = averaged();
    CHECK(close(found, expected));
    CHECK(found.summary.metrics.at("val_loss") == Catch::Approx(expected.summary.metrics.at("val_loss")));
  }
}

TEST_CASE("every strategy goes on while a rank has no sample left, in training and everything else",
          "[conformance]") {
  Options options = some_steps();
  SECTION("as it is") {}
  SECTION("weights averaged") {
    options.trainer.max_epochs = 5;
    options.trainer.stochastic_weight_avg = true;
  }
  SoloWorld alone_world;
  const Trained expected = run_with_odd_sample(alone_world, options, 8 * test_world().size());
  for (const Conforming& strategy : strategies()) {
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = run_with_odd_sample(test_world(), under(strategy, options), batch_size(strategy));
    CHECK(close(found, expected));
    for (const char* metric : {"val_loss", "test_loss"})
      CHECK(found.summary.metrics.at(metric) == Catch::Approx(expected.summary.metrics.at(metric)));
  }
}

TEST_CASE("every strategy logs the norms of the whole model's gradients", "[conformance]") {
  Options options = some_steps();
  options.trainer.log_every_n_steps = 1;
  options.trainer.track_grad_norm = GENERATE(2.0, std::numeric_limits<double>::infinity());
  const Trained expected = alone<Wide>(options);
  for (const Conforming& strategy : strategies()) {
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = together<Wide>(strategy, options);
    int norms = 0;
    for (const auto& [name, value] : expected.summary.metrics) {
      if (!name.starts_with("grad_")) continue;
      ++norms;
      REQUIRE(found.summary.metrics.contains(name));
      CHECK(found.summary.metrics.at(name) == Catch::Approx(value).epsilon(1e-4));
    }
    CHECK(norms == 5);  // four parameters, and the total
  }
}

/// Its third step overflows in float16, in one parameter's gradient alone. The loss is small, so that no
/// other step does, on however many ranks.
class Overflowing : public Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    const at::Tensor value = Regression::training_step(batch, idx).loss * 0.01;
    return global_step() == 2 ? value + second->bias.sum() * 1e30 * 1e30 : value;
  }
};

TEST_CASE("every strategy skips a step on all ranks where one gradient overflows", "[conformance]") {
  Options options = some_steps();
  options.trainer.precision = "16-mixed";
  const Trained expected = alone<Overflowing>(options);
  for (const Conforming& strategy : strategies()) {
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const Trained found = together<Overflowing>(strategy, options);
    CHECK(found.summary.status == "done");
    CHECK(found.parameters.isfinite().all().item<bool>());
    CHECK(at::allclose(found.parameters, expected.parameters, 1e-2, 1e-3));
  }
}

TEST_CASE("every strategy keeps master weights, or says that it has none", "[conformance]") {
  Options options = some_steps();
  options.trainer.precision = "16-mixed";
  options.trainer.amp_level = "O2";
  for (const Conforming& strategy : strategies()) {
    if (strategy.name == "dp") continue;  // refused by the plan
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    if (strategy.master_weights) {
      CHECK(together<Wide>(strategy, options).summary.status == "done");
    } else {
      CHECK_THROWS_WITH((together<Wide>(strategy, options)), test::contains("master weights"));
    }
  }
}

/// Predictions after a fit, on the same trainer: the model is whole again on every rank.
TEST_CASE("after a fit every rank has the whole model, and every strategy predicts with it",
          "[conformance]") {
  for (const Conforming& strategy : strategies()) {
    CAPTURE(strategy.name, strategy.divided, strategy.stage, strategy.parameters);
    const test::TempDir dir;
    Options options = under(strategy, some_steps());
    options.trainer.default_root_dir = dir.path();
    ToyData data(48 * test_world().size(), 8, 24);
    Trainer trainer(test_world(), options);
    trainer.set_replica_factory([] { return std::make_unique<Regression>(); });
    Regression model;
    const RunSummary summary = trainer.fit(model, data);
    // Ranks that keep parts have nothing to compare, and say so.
    if (strategy.name == "owner" || strategy.stages > 1 || !strategy.parameters.empty())
      CHECK_FALSE(summary.parameters_equal_on_all_ranks);
    else
      CHECK(summary.parameters_equal_on_all_ranks == true);
    const double sum = test::flat_parameters(model).sum().item<double>();
    for (const std::string& other : test_world().all_gather(std::to_string(sum)))
      CHECK(other == std::to_string(sum));
    trainer.predict(model, data);
    const Predictions& predictions = trainer.predictions();
    std::int64_t rows = 0;
    for (const at::Tensor& output : predictions.outputs) rows += output.size(0);
    std::vector<double> all{static_cast<double>(rows)};
    test_world().sum(all);
    CHECK(all[0] == 24);
  }
}

}  // namespace
}  // namespace cxtrain
