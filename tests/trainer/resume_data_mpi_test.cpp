#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/data/sampler.h"
#include "cxtrain/metrics/regression.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/random_rows.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// Trainings with samplers, combined loaders, metrics and moving averages that are resumed, on as many ranks
/// and on one.
namespace cxtrain {
namespace {

/// The same batches over all ranks on any number of ranks: 60 samples in five batches.
class SameBatches : public DataModule {
 public:
  SameBatches(std::string kind, int ranks) : kind_(std::move(kind)), batch_size_(12 / ranks) {}
  Loaders train_dataloader() override {
    DataLoaderSpec spec{
        .dataset = test::random_rows(60, 1), .batch_size = batch_size_, .shuffle = true, .name = "first"};
    if (kind_ == "combined") {
      const DataLoaderSpec other{.dataset = test::random_rows(36, 2),
                                 .batch_size = 2 * batch_size_,
                                 .shuffle = true,
                                 .name = "second"};
      return {Combine::max_size_cycle, {spec, other}};
    }
    if (kind_ == "shuffled") return spec;
    spec.shuffle = false;
    std::vector<double> weights;
    for (int i = 0; i < 60; ++i) weights.push_back(1 + i % 7);
    spec.sampler = std::make_shared<WeightedSampler>(weights, 60, /*replacement=*/kind_ == "weighted");
    return spec;
  }
  Loaders val_dataloader() override { return {test::random_rows(24, 3), batch_size_}; }

 private:
  std::string kind_;
  std::int64_t batch_size_;
};

class Measured : public test::Regression {
 public:
  Measured() : Regression({.optimizer = Sgd{.lr = 0.1, .momentum = 0.9}}) {}
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const bool combined = !batch.parts.empty();
    const Batch& first_part = combined ? batch.part("first") : batch;
    at::Tensor value = loss(first_part);
    if (combined) value = value + loss(batch.part("second"));
    error_.update(second->forward(at::tanh(first->forward(first_part[0]))), first_part[1]);
    log("error", error_, {.on_step = false, .on_epoch = true});
    return value;
  }
  void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", loss(batch)); }

 private:
  MeanSquaredError& error_ = register_metric<MeanSquaredError>("error");
};

struct SameBatchesFit {
  at::Tensor parameters;
  std::map<std::string, double> metrics;
  std::string log_dir;
};

SameBatchesFit fit_same_batches(World& world, const std::string& kind, const std::string& root,
                                const std::string& ckpt_path) {
  Options options = test::quiet(root);
  options.trainer.max_epochs = 3;
  options.trainer.precision = "64-true";
  options.trainer.strategy = world.size() > 1 ? "ddp" : "single";
  Measured model;
  SameBatches data(kind, world.size());
  Trainer trainer(world, options);
  trainer.add_callback<Ema>({.decay = 0.9});
  trainer.add_callback<ModelCheckpoint>({.save_top_k = -1, .every_n_train_steps = 7});
  const RunSummary summary = trainer.fit(model, data, {.ckpt_path = ckpt_path});
  return {test::flat_parameters(model), summary.metrics, trainer.log_dir()};
}

TEST_CASE("samplers, combined loaders, metrics and averages are resumed on as many ranks and on one",
          "[resume]") {
  const std::string kind = GENERATE("shuffled", "weighted", "without replacement", "combined");
  CAPTURE(kind);
  World& world = test_world();
  const test::TempDir dir;
  const std::string root = world.broadcast(dir.path());
  const SameBatchesFit whole = fit_same_batches(world, kind, root + "/whole", "");
  const std::string checkpoint = whole.log_dir + "/checkpoints/epoch=1-step=7.ckpt";
  const SameBatchesFit resumed = fit_same_batches(world, kind, root + "/resumed", checkpoint);
  CHECK(resumed.parameters.equal(whole.parameters));
  CHECK(resumed.metrics == whole.metrics);

  SoloWorld solo;
  const SameBatchesFit alone = fit_same_batches(solo, kind, dir.path() + "/alone", checkpoint);
  CHECK(alone.parameters.allclose(whole.parameters, 1e-9, 1e-10));
  CHECK(alone.metrics.size() == 2);
  for (const auto& [name, value] : alone.metrics)
    CHECK(value == Approx(whole.metrics.at(name)).epsilon(1e-6));
  world.barrier();
}

}  // namespace
}  // namespace cxtrain
