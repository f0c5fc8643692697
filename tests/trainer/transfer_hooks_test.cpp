#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "cxtrain/data/dataset_views.h"
#include "support/catch.h"
#include "support/setting.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::Setting;
using test::ToyData;

/// Notes the hooks' calls, and adds noise to training inputs.
class NoisyModel : public Regression {
 public:
  void on_before_batch_transfer(Batch&, BatchContext& context) override {
    calls.insert("before " + std::string(name_of(context.stage())));
    CHECK(context.device().is_cpu());
  }
  void on_after_batch_transfer(Batch& batch, BatchContext& context) override {
    calls.insert("after " + std::string(name_of(context.stage())));
    CHECK(&context.module() == this);
    if (context.stage() != Stage::fit) {
      loaders.insert(context.place().dataloader_idx);
      return;
    }
    batches.push_back(context.place().batch_idx);
    noise.push_back(at::randn({1}, context.generator()).item<float>());
    batch.tensors[0] = batch[0] + at::randn(batch[0].sizes(), context.generator(), batch[0].options());
  }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    seen = batch[0].abs().max().item<float>();
    return Regression::training_step(batch, idx);
  }

  std::set<std::string> calls;
  std::set<int> loaders;
  std::vector<std::int64_t> batches;
  std::vector<float> noise;
  float seen = 0;
};

class TwoEvaluations : public ToyData {
 public:
  TwoEvaluations() : ToyData(32, 8, 12) {}
  Loaders val_dataloader() override { return twice(ToyData::val_dataloader()); }
  Loaders predict_dataloader() override { return twice(ToyData::predict_dataloader()); }

 private:
  static Loaders twice(const Loaders& loaders) { return {loaders.specs()[0], loaders.specs()[0]}; }
};

TEST_CASE("transfer hooks know the batch's place, and draw equal numbers in each run") {
  Setting setting;
  setting.options.trainer.max_epochs = 2;
  std::vector<float> first;
  std::string hash;
  for (int run = 0; run < 2; ++run) {
    TwoEvaluations data;
    NoisyModel model;
    const RunSummary summary = setting.fit(model, data);
    CHECK(model.calls ==
          std::set<std::string>{"before fit", "after fit", "before validate", "after validate"});
    CHECK(model.loaders == std::set<int>{0, 1});
    CHECK(model.batches == std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3});
    CHECK(std::set<float>(model.noise.begin(), model.noise.end()).size() == 8);
    CHECK((run == 0 || model.noise == first));
    CHECK((run == 0 || summary.parameters_sha256 == hash));
    first = model.noise;
    hash = summary.parameters_sha256;
  }
}

TEST_CASE("the hook of the data module takes the place of the module's") {
  class Zeros : public ToyData {
   public:
    Zeros() : ToyData(32, 8) {}
    void on_after_batch_transfer(Batch& batch, BatchContext&) override {
      batch.tensors[0] = at::zeros_like(batch[0]);
    }
  };
  Setting setting;
  Zeros data;
  NoisyModel model;
  setting.fit(model, data);
  CHECK(model.calls == std::set<std::string>{"before fit"});
  CHECK(model.seen == 0);
}

TEST_CASE("the generator of a hook depends on seed, epoch, batch, stage, loader, rank and hook") {
  Regression model;
  const auto draw = [&](const BatchContext::Place& place, int rank = 0) {
    BatchContext context(place, rank, at::kCPU, model);
    const float number = at::randn({1}, context.generator()).item<float>();
    CHECK(at::randn({1}, context.generator()).item<float>() != number);  // the generator goes on
    return number;
  };
  const BatchContext::Place place{Stage::fit, 0, 1, 2, 3};
  CHECK(draw(place) == draw(place));
  std::set<float> numbers{draw(place), draw(place, 1)};
  for (const BatchContext::Place& other : std::vector<BatchContext::Place>{{Stage::validate, 0, 1, 2, 3},
                                                                           {Stage::fit, 1, 1, 2, 3},
                                                                           {Stage::fit, 0, 2, 2, 3},
                                                                           {Stage::fit, 0, 1, 3, 3},
                                                                           {Stage::fit, 0, 1, 2, 4}})
    numbers.insert(draw(other));
  CHECK(numbers.size() == 7);
}

TEST_CASE("the predictions of several loaders are kept apart, in memory and in files") {
  Setting setting;
  setting.options.trainer.logger = true;
  class Counting : public NoisyModel {
   public:
    void on_predict_epoch_start() override { ++epochs; }
    void on_predict_epoch_end() override { ++epochs; }
    at::Tensor predict_step(const Batch& batch, std::int64_t) override {
      return at::full({batch.size}, dataloader_idx());
    }
    int epochs = 0;
  };
  class Predicted : public ToyData {
   public:
    Predicted() : ToyData(8, 8, 12) {}
    Loaders predict_dataloader() override {
      const DataLoaderSpec all = ToyData::predict_dataloader().specs()[0];
      return {all, {subset(all.dataset, {7, 3}), 1}};
    }
  };
  Predicted data;
  Counting model;
  Trainer trainer(setting.world, setting.options);
  trainer.predict(model, data);
  CHECK(model.epochs == 2);
  CHECK(model.loaders == std::set<int>{0, 1});
  CHECK(trainer.predictions(0).indices.size() == 12);
  CHECK(trainer.predictions(1).indices == std::vector<std::int64_t>{0, 1});
  CHECK(at::cat(trainer.predictions(0).outputs).eq(0).all().item<bool>());
  CHECK(at::cat(trainer.predictions(1).outputs).equal(at::ones({2})));
  CHECK_THROWS_AS(trainer.predictions(2), std::out_of_range);
  for (const char* file :
       {"predictions_rank_0_dataloader_idx_0.pt", "predictions_rank_0_dataloader_idx_1.pt"})
    CHECK(std::filesystem::exists(trainer.log_dir() + "/" + file));
}

}  // namespace
}  // namespace cxtrain
