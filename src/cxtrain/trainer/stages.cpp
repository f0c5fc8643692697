#include "cxtrain/trainer/stages.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/joined.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/run_loaders.h"
#include "cxtrain/trainer/tuner.h"

namespace cxtrain {
namespace {

/// The loaders of a stage's data, and the batches that the options leave of each. Throws ConfigError, on all
/// ranks, if the stage has no data.
struct StageData {
  StageData(Session& session, DataModule& data, Stage stage);

  std::vector<std::unique_ptr<DataLoader>> loaders;
  std::vector<std::int64_t> batches;
};

Loaders loaders_of(DataModule& data, Stage stage) {
  if (stage == Stage::validate) return data.val_dataloader();
  return stage == Stage::test ? data.test_dataloader() : data.predict_dataloader();
}

struct LimitOfStage {
  const BatchLimit& limit;
  const char* option;
  const char* samples;
};

LimitOfStage limit_of(const TrainerOptions& options, Stage stage) {
  if (stage == Stage::validate) return {options.limit_val_batches, "limit_val_batches", "validation samples"};
  if (stage == Stage::test) return {options.limit_test_batches, "limit_test_batches", "test samples"};
  return {options.limit_predict_batches, "limit_predict_batches", "samples to predict"};
}

StageData::StageData(Session& session, DataModule& data, Stage stage) {
  World& world = session.context().parts.world;
  const LimitOfStage limit = limit_of(session.context().parts.options.trainer, stage);
  std::string own;
  run_agreed(world, [&] {
    loaders = RunLoaders(session.context()).evaluation(loaders_of(data, stage), stage);
    if (loaders.empty())
      throw ConfigError("data", std::string("has no ") + limit.samples, "", MessageCode::no_data);
    own = joined(loaders, ", ", [&](const auto& loader) { return describe_length(*loader, world); });
  });
  require_same_data(world, own);
  run_agreed(world, [&] {
    for (const auto& loader : loaders)
      batches.push_back(limited_batches(limit.limit, limit.option, loader->num_batches()));
  });
}

}  // namespace

void Evaluation::run() {
  TrainContext& context = session_.context();
  const bool tests = stage_ == EvaluationStage::test;
  const StageData data(session_, data_, tests ? Stage::test : Stage::validate);
  const auto values = evaluate(context, stage_, data.loaders, data.batches, /*saves_state=*/false);
  run_agreed(context.parts.world, [&] {
    if (!values) throw StepNotDefined(tests ? "test" : "validate", tests ? "test_step" : "validation_step");
  });
  context.rows.log(*values);
}

void Prediction::run() {
  const StageData data(session_, data_, Stage::predict);
  predictions_ = predict(session_.context(), data.loaders, data.batches);
  session_.folder().write_predictions(predictions_);
}

void LrFind::run() { result_ = Tuner(session_, module_, data_).lr_find(sweep_); }

void ScaleBatchSize::run() { found_ = Tuner(session_, module_, data_).scale_batch_size(search_); }

}  // namespace cxtrain
