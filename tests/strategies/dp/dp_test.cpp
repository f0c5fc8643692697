#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>

#include <fstream>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/plugin/loader.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/sequences.h"
#include "support/temp_dir.h"
#include "support/times.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::code;
using test::contains;
using test::error_of;
using test::Exact;
using test::Regression;
using test::ToyData;

Options steps(int count = 20) {
  Options options = test::quiet("");
  options.trainer.accelerator = "cpu";
  options.trainer.max_epochs = -1;
  options.trainer.max_steps = count;
  return options;
}

Options on_replicas(int replicas, Options options) {
  options.trainer.strategy = "dp";
  options.trainer.devices = std::to_string(replicas);
  return options;
}

/// A run with its folder and what became of it.
struct Replicas {
  test::TempDir dir;
  SoloWorld world;
  Log log{1};  // rank 0 would write to the console, too
  RunSummary summary;

  template <class Make>
  void fit(Module& model, DataModule& data, Options options, Make make) {
    options.trainer.default_root_dir = dir.path();
    Trainer trainer(world, options);
    trainer.set_outputs({.log = &log});
    trainer.set_replica_factory(make);
    summary = trainer.fit(model, data);
  }
  std::string text() const {
    std::ifstream file(dir.path() + "/cxtrain_logs/version_0/rank_1.log");
    return (std::ostringstream() << file.rdbuf()).str();
  }
};

template <class Model>
at::Tensor train(ToyData& data, const Options& options) {
  Replicas run;
  Model model;
  run.fit(model, data, options, [] { return std::make_unique<Model>(); });
  return test::flat_parameters(model);
}

TEST_CASE("dp equals single") {
  ToyData data(70, 10);  // with 4 replicas 3, 3, 3 and 1 samples
  Options options = steps();
  SECTION("full precision") { options.trainer.precision = GENERATE("32-true", "64-true"); }
  SECTION("a smaller last batch") {
    ToyData odd(73, 10);
    data = odd;
  }
  SECTION("accumulated") { options.trainer.accumulate_grad_batches = 3; }
  SECTION("clipped") {
    options.trainer.gradient_clip_val = 0.05;
    options.trainer.gradient_clip_algorithm =
        GENERATE(GradientClipAlgorithm::norm, GradientClipAlgorithm::value);
  }
  SECTION("by an optimizer that evaluates the loss itself") {
    options.optimizer = {"lbfgs", {{"lr", "0.1"}}};
    options.trainer.precision = "64-true";  // its curvature estimates magnify what float32 rounds away
    options.trainer.max_steps = 5;
  }
  const at::Tensor alone = train<Regression>(data, options);
  for (const int replicas : {1, 2, 4}) {
    CAPTURE(replicas);
    CHECK(at::allclose(train<Regression>(data, on_replicas(replicas, options)), alone, 1e-5, 1e-7));
  }
}

TEST_CASE("dp equals single bit for bit where gradients are exact") {
  ToyData data(64, 16, 0, true);
  for (const int replicas : {2, 4}) {
    CHECK(at::equal(train<Exact>(data, on_replicas(replicas, steps())), train<Exact>(data, steps())));
  }
}

TEST_CASE("mixed precision works on replicas") {
  ToyData data(64, 16);
  Options options = steps();
  options.trainer.precision = GENERATE("bf16-mixed", "16-mixed");
  // Products are rounded alike; their sums over samples are not.
  CHECK(at::allclose(train<Regression>(data, on_replicas(2, options)), train<Regression>(data, options), 1e-2,
                     1e-2));
}

TEST_CASE("large gradients, which the threads sum together, are as exact as small ones") {
  struct Wide : Module {
    Wide() {
      at::manual_seed(4);
      layer = register_module("layer", torch::nn::Linear(6, 40000));
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return layer->forward(batch[0].round()).sum().div(static_cast<double>(batch.size));
    }
    Optimizers configure_optimizers() override { return Sgd{.lr = 0.5}; }
    torch::nn::Linear layer{nullptr};
  };
  ToyData data(16, 16);
  CHECK(at::equal(train<Wide>(data, on_replicas(4, steps(2))), train<Wide>(data, steps(2))));
}

TEST_CASE("the digits example trains the same on replicas") {
  Registry registry;
  PluginLoader loader(registry);
  loader.require(Module::kKind, "digits");
  std::vector<Problem> problems;
  const Arguments arguments(registry.require(Module::kKind, "digits").arguments, {}, "model.", problems);
  const auto make = [&] {
    at::manual_seed(0);
    return registry.make<Module>("digits", arguments);
  };
  const auto parameters = [&](const Options& options) {
    Replicas run;
    const std::unique_ptr<Module> model = make();
    const std::unique_ptr<DataModule> data = model->default_data();
    run.fit(*model, *data, options, make);
    return test::flat_parameters(*model);
  };
  CHECK(at::allclose(parameters(on_replicas(4, steps())), parameters(steps()), 1e-5, 1e-6));
}

TEST_CASE("metrics and predictions are over all replicas' samples") {
  ToyData data(40, 10, 23);
  Options options = test::quiet("");
  options.trainer.accelerator = "cpu";
  const auto run_with = [&](const Options& chosen, std::vector<at::Tensor>& predictions) {
    const test::TempDir dir;
    SoloWorld world;
    Options here = chosen;
    here.trainer.default_root_dir = dir.path();
    Trainer trainer(world, here);
    trainer.set_replica_factory([] { return std::make_unique<Regression>(); });
    Regression model;
    const auto metrics = trainer.fit(model, data).metrics;
    trainer.predict(model, data);
    predictions = trainer.predictions().outputs;
    return metrics;
  };
  std::vector<at::Tensor> together, alone;
  const auto metrics = run_with(on_replicas(3, options), together), expected = run_with(options, alone);
  for (const char* name : {"train_loss", "val_loss", "val_mean"}) {
    CAPTURE(name);
    CHECK(metrics.at(name) == Catch::Approx(expected.at(name)).epsilon(1e-4));
  }
  REQUIRE(together.size() == alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) CHECK(at::allclose(together[i], alone[i], 1e-4, 1e-5));
}

TEST_CASE("the primary's buffers are kept, and every forward pass of a replica starts from them") {
  static std::vector<double> seen;  // running means that replica 1 begins with
  struct Normalised : Regression {
    Normalised() { norm = register_module("norm", torch::nn::BatchNorm1d(6)); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      if (batch[0].storage_offset() != 0) seen.push_back(norm->running_mean.sum().item<double>());
      at::Tensor value = norm->forward(batch[0]).mul(norm->weight).mean().add(loss(batch));
      if (batch[0].storage_offset() == 0) own = norm->running_mean.sum().item<double>();
      return value;
    }
    torch::nn::BatchNorm1d norm{nullptr};
    double own = 0;
  };
  seen.clear();
  ToyData data(32, 16);
  Replicas run;
  Normalised model;
  Options options = on_replicas(2, steps(3));
  run.fit(model, data, options, [] { return std::make_unique<Normalised>(); });
  CHECK(model.norm->num_batches_tracked.item<std::int64_t>() == 3);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0] == 0);
  CHECK(seen[2] != 0);
  CHECK(model.norm->running_mean.sum().item<double>() == model.own);
}

TEST_CASE("the named outputs of the replicas are joined") {
  struct Named : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      return {Regression::training_step(batch, idx).loss, {{"inputs", batch[0]}, {"mean", batch[0].mean()}}};
    }
    void on_train_batch_end(const StepOutput& output, const Batch& batch, std::int64_t) override {
      CHECK(output.extras.at("inputs").equal(batch[0]));
      CHECK(output.extras.at("mean").sizes() == at::IntArrayRef{2});
      CHECK(output.extras.at("mean").mean().allclose(batch[0].mean()));
      ++outputs;
    }
    int outputs = 0;
  };
  ToyData data(16, 8);
  Replicas run;
  Named model;
  run.fit(model, data, on_replicas(2, steps(2)), [] { return std::make_unique<Named>(); });
  CHECK(model.outputs == 2);
}

TEST_CASE("a layer that the primary keeps in evaluation mode is so in every replica") {
  struct Frozen : Regression {
    Frozen() { drop = register_module("drop", torch::nn::Dropout(0.5)); }
    void on_train_start() override { drop->eval(); }
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (drop->is_training() || !first->is_training()) throw TrainingError("wrong mode");
      return Regression::training_step(batch, idx);
    }
    torch::nn::Dropout drop{nullptr};
  };
  ToyData data(16, 8, 8);
  CHECK(train<Frozen>(data, on_replicas(2, steps(2))).defined());
}

TEST_CASE("replicas are made by a factory, and what is wrong with it is said") {
  ToyData data(16, 8);
  Replicas run;
  Regression model;
  const auto fit = [&](auto make) { run.fit(model, data, on_replicas(2, steps(1)), make); };
  REQUIRE_THAT(error_of([&] { fit(std::function<std::unique_ptr<Module>()>()); }),
               contains(code(MessageCode::conflicting_options)) && contains("dp") && contains("2 replicas") &&
                   contains("set_replica_factory"));
  struct Other : Regression {
    Other() { third = register_module("third", torch::nn::Linear(2, 2)); }
    torch::nn::Linear third{nullptr};
  };
  REQUIRE_THROWS_WITH(fit([] { return std::make_unique<Other>(); }),
                      contains("nothing further") && contains("third.weight"));
  struct Sharing : Regression {
    explicit Sharing(const Regression& other) { replace_module("first", first = other.first); }
  };
  REQUIRE_THAT(error_of([&] { fit([&] { return std::make_unique<Sharing>(model); }); }),
               contains(code(MessageCode::bad_model)) && contains("first.weight") && contains("shares"));
}

TEST_CASE("a step that bypasses its replica is found at the first step") {
  struct Bypass : Regression {
    explicit Bypass(Bypass* trained = nullptr) : target(trained == nullptr ? this : trained) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override { return target->loss(batch); }
    Bypass* target;
  };
  ToyData data(16, 8);
  Replicas run;
  Bypass model;
  REQUIRE_THAT(error_of([&] {
                 run.fit(model, data, on_replicas(2, steps(1)),
                         [&] { return std::make_unique<Bypass>(&model); });
               }),
               contains(code(MessageCode::training_failed)) && contains("dp") && contains("replica 1"));
}

TEST_CASE("an error in a replica's step names the replica") {
  struct Picky : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (batch.size < 3) throw TrainingError("too few samples");
      return Regression::training_step(batch, idx);
    }
  };
  ToyData data(16, 8);  // 3, 3 and 2 samples
  REQUIRE_THAT(error_of([&] { train<Picky>(data, on_replicas(3, steps(1))); }),
               contains(code(MessageCode::training_failed)) && contains("replica 2 of 3 (cpu)") &&
                   contains("too few samples"));
}

TEST_CASE("what a user may not expect of the split is said once") {
  struct Scaled : Regression {
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      if (batch[2].sizes() != at::IntArrayRef{2}) throw TrainingError("split");
      return loss(batch);
    }
  };
  struct Data final : DataModule, Dataset {
    std::int64_t size() const override { return 9; }
    void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
      const auto n = static_cast<std::int64_t>(indices.size());
      batch.tensors = {at::randn({n, 6}), at::randn({n, 2}), at::randn({2})};
      batch.size = n;
    }
    void setup(Stage, const DataOptions&) override {}
    Loaders train_dataloader() override { return {std::shared_ptr<Data>(std::shared_ptr<Data>(), this), 3}; }
  };
  Replicas run;
  Scaled model;
  Data data;
  run.fit(model, data, on_replicas(4, steps(3)), [] { return std::make_unique<Scaled>(); });
  const std::string text = run.text();
  CAPTURE(text);
  CHECK(test::times(text, "3 of 4 devices are used") == 1);
  CHECK(test::times(text, "batch[2] of shape [2]") == 1);
  CHECK(test::times(text, "batch[1]") == 0);
}

/// Reads sums of sequences in place of the inputs.
class OfDivisible : public Regression {
 public:
  OfDivisible() : Regression({.optimizer = Sgd{.lr = 0.05}}) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    return Regression::training_step(
        {.tensors = {batch.object<test::Sequences>().sums(), batch[0]}, .size = batch.size}, idx);
  }
};

template <class Kind>
at::Tensor train_objects(const Options& options) {
  class Data : public DataModule {
   public:
    Loaders train_dataloader() override { return {std::make_shared<test::SequenceData<Kind>>(26), 10, true}; }
  };
  Replicas run;
  Data data;
  OfDivisible model;
  run.fit(model, data, options, [] { return std::make_unique<OfDivisible>(); });
  return test::flat_parameters(model);
}

TEST_CASE("dp divides objects that can be divided, and rejects others") {
  const at::Tensor single = train_objects<test::DivisibleSequences>(steps(6));
  CHECK(at::allclose(train_objects<test::DivisibleSequences>(on_replicas(3, steps(6))), single, 1e-4, 1e-6));
  const std::string message =
      error_of<Error>([] { train_objects<test::Sequences>(on_replicas(3, steps(6))); });
  CHECK_THAT(message, contains("Sequences cannot be divided"));
}

}  // namespace
}  // namespace cxtrain
