#include "cxtrain/callbacks/lambda_callback.h"

#include <ATen/ops/full.h>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/run_of_values.h"
#include "support/catch.h"
#include "support/setting.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

TEST_CASE("functions run as hooks, in the order of a fit") {
  test::Setting setting;
  test::ToyData data(16, 8, 8);
  test::Regression model;
  std::vector<std::string> names;
  const auto note = [&](const char* name) { return [&names, name](Run&) { names.emplace_back(name); }; };
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<LambdaCallback>(
      {.on_fit_start = note("fit start"),
       .on_train_start = note("start"),
       .on_train_epoch_start = note("epoch start"),
       .on_train_batch_start =
           [&](Run&, const Batch& batch, std::int64_t idx) {
             names.push_back("batch " + std::to_string(idx) + " of " + std::to_string(batch.size));
           },
       .on_before_optimizer_step =
           [&](Run& run, OptimizerRef& optimizer) {
             names.push_back(optimizer.name() + std::to_string(run.global_step()));
           },
       .on_train_batch_end =
           [&](Run& run, const StepOutput& output, const Batch&, std::int64_t) {
             CHECK(output.loss.defined());
             CHECK(&run.module<test::Regression>() == &model);
           },
       .on_validation_epoch_start = note("validation"),
       .on_validation_epoch_end = note("validated"),
       .on_train_epoch_end = note("epoch end"),
       .on_train_end = note("end"),
       .on_fit_end = note("fit end")});
  trainer.fit(model, data);
  CHECK(names == std::vector<std::string>{"fit start", "start", "epoch start", "batch 0 of 8", "AdamW0",
                                          "batch 1 of 8", "AdamW1", "validation", "validated", "epoch end",
                                          "end", "fit end"});
}

TEST_CASE("a run of values keeps the images and texts that a callback logs") {
  LambdaCallback callback({.on_train_epoch_end = [](Run& run) {
    run.loggers().log_image("filters", at::full({4, 3, 2, 2}, 1.0));
    run.loggers().log_text("notes", "epoch " + std::to_string(run.current_epoch()));
  }});
  RunOfValues values;
  values.state.epoch = 3;
  callback.on_train_epoch_end(values.run);
  CHECK(values.loggers.images.at("filters").sizes() == at::IntArrayRef({3, 6, 18}));
  CHECK(values.loggers.texts.at("notes") == "epoch 3");
  CHECK_THROWS_AS(values.run.loggers().log_image("flat", at::full({5}, 1.0)), TrainingError);
}

}  // namespace
}  // namespace cxtrain
