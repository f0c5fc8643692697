#include <algorithm>
#include <map>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/metrics/curves.h"
#include "cxtrain/metrics/regression.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/event_file.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// The files of metrics of a training that is resumed, in place or in a new folder: those of one that was
/// not.
namespace cxtrain {
namespace {

/// Keeps the state after so many steps, and stops after some more.
class KeepAndStop : public Callback {
 public:
  KeepAndStop(std::int64_t keep_at, std::int64_t stop_at, std::optional<StateDict>& kept)
      : keep_at_(keep_at), stop_at_(stop_at), kept_(kept) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (run.global_step() == keep_at_) run.request_checkpoint();
    if (run.global_step() == stop_at_) run.request_stop("");
  }
  void on_checkpoint(Run&, const StateDict& state) override { kept_ = state.clone(); }

 private:
  std::int64_t keep_at_, stop_at_;
  std::optional<StateDict>& kept_;
};

/// A key of its own comes with the second epoch. Metrics with states of every kind: sums, moments, rows.
class LateKey : public test::Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (global_step() % 3 == 0) {
      loggers().log_image("weight", first->weight.sigmoid());
      loggers().log_text("note", "step " + std::to_string(global_step()));
    }
    if (current_epoch() > 0) log("a_late_key", static_cast<double>(batch_idx), {.on_step = true});
    const at::Tensor preds = second->forward(at::tanh(first->forward(batch[0])));
    error.update(preds, batch[1]);
    log("error", error, {.on_step = true, .on_epoch = true});
    correlation.update(preds.select(1, 0), batch[1].select(1, 0));
    log("correlation", correlation, {.on_step = false, .on_epoch = true});
    auroc.update(preds.select(1, 0), batch[1].select(1, 0).gt(0).to(at::kLong));
    log("auroc", auroc, {.on_step = false, .on_epoch = true});
    return test::Regression::training_step(batch, batch_idx);
  }
  void validation_step(const Batch& batch, std::int64_t batch_idx) override {
    error.update(loss(batch), at::zeros({}));
    log("val_error", error);
    test::Regression::validation_step(batch, batch_idx);
  }

  MeanSquaredError& error = register_metric<MeanSquaredError>("error");
  PearsonCorrCoef& correlation = register_metric<PearsonCorrCoef>("correlation");
  AUROC& auroc = register_metric<AUROC>("auroc", {.task = ClassificationTask::binary, .thresholds = 0});
};

struct Fitted {
  RunSummary summary;
  std::string log_dir;
  std::optional<StateDict> kept;
};

Fitted fit_and_keep(const test::TempDir& dir, std::int64_t keep_at, std::int64_t stop_at,
                    const ResumeFrom* from = nullptr) {
  Options options = test::quiet(dir.path());
  options.trainer.max_epochs = 4;
  options.trainer.log_every_n_steps = 2;
  options.trainer.val_check_interval = BatchLimit{std::int64_t{5}};
  options.trainer.strategy = test_world().size() > 1 ? "ddp" : "single";
  Fitted fitted;
  Trainer trainer(test_world(), options);
  trainer.set_outputs({.config_yaml = "seed: " + std::to_string(keep_at) + "\n"});
  trainer.add_callback(std::make_unique<KeepAndStop>(keep_at, stop_at, fitted.kept));
  LateKey model;
  test::ToyData data(10 * 8 * test_world().size(), 8, 24);
  fitted.summary = from != nullptr ? trainer.fit(model, data, *from) : trainer.fit(model, data);
  fitted.log_dir = trainer.log_dir();
  test_world().barrier();  // the files are rank 0's
  return fitted;
}

struct MetricFiles {
  std::string csv, jsonl;
  std::vector<test::ReadEvent> events;
};

MetricFiles read_metrics(const std::string& folder) {
  MetricFiles files{test::slurp(folder + "/metrics.csv"), test::slurp(folder + "/metrics.jsonl"), {}};
  for (const std::string& name : real_filesystem().list(folder)) {
    if (!name.starts_with("events.out.tfevents.")) continue;
    const auto events = test::read_events(test::slurp(folder + "/" + name));
    files.events.insert(files.events.end(), events.begin(), events.end());
  }
  return files;
}

TEST_CASE("a resumed training's files of metrics are those of one that was not interrupted", "[resume]") {
  if (test_world().size() > 2) return test::skip_for_ranks("rank 0 writes the files, as with 2");
  const bool in_place = GENERATE(true, false);
  const std::int64_t keep_at = GENERATE(1, 4, 10, 17, 20, 31);
  const test::TempDir dir;
  const Fitted whole = fit_and_keep(dir, -1, -1);
  const Fitted first = fit_and_keep(dir, keep_at, keep_at + 7);
  REQUIRE(first.kept.has_value());
  const ResumeFrom from{*first.kept, first.log_dir, in_place};
  const Fitted second = fit_and_keep(dir, -1, -1, &from);
  CHECK((second.log_dir == first.log_dir) == in_place);
  CHECK(second.summary.parameters_sha256 == whole.summary.parameters_sha256);
  if (!test_world().is_root()) return;
  CAPTURE(in_place, keep_at);
  const MetricFiles expected = read_metrics(whole.log_dir), found = read_metrics(second.log_dir);
  CHECK(found.csv == expected.csv);
  CHECK(found.jsonl == expected.jsonl);
  CHECK((found.events == expected.events));
  CHECK(!expected.events.empty());
  CHECK(test::slurp(second.log_dir + "/config.yaml") == "seed: -1\n");
  CHECK(test::slurp(first.log_dir + "/run.json").find("\"done\"") != std::string::npos);
}

TEST_CASE("a state that is refused leaves the rows of the run that it comes from", "[resume]") {
  const test::TempDir dir;
  const Fitted first = fit_and_keep(dir, 10, 17);
  REQUIRE(first.kept.has_value());
  const std::string rows = test::slurp(first.log_dir + "/metrics.csv");
  StateDict foreign = first.kept->clone();
  foreign.make_section("model").set("training_modes", "11");
  const ResumeFrom from{foreign, first.log_dir, /*in_place=*/true};
  CHECK_THAT(test::error_of([&] { fit_and_keep(dir, -1, -1, &from); }),
             test::contains(test::code(MessageCode::model_mismatch)) && test::contains("modules"));
  if (!test_world().is_root()) return;  // the folder is rank 0's, and goes with its end of this case
  CHECK(test::slurp(first.log_dir + "/metrics.csv") == rows);
}

TEST_CASE("a run whose folder is gone makes it again and goes on", "[resume]") {
  const test::TempDir dir;
  const Fitted whole = fit_and_keep(dir, -1, -1);
  const Fitted first = fit_and_keep(dir, 10, 17);
  REQUIRE(first.kept.has_value());
  test_world().barrier();
  if (test_world().is_root()) std::filesystem::remove_all(first.log_dir);
  const ResumeFrom from{*first.kept, first.log_dir, /*in_place=*/true};
  const Fitted second = fit_and_keep(dir, -1, -1, &from);
  CHECK(second.summary.parameters_sha256 == whole.summary.parameters_sha256);
  if (!test_world().is_root()) return;
  CHECK(test::slurp(first.log_dir + "/run.json").find("\"done\"") != std::string::npos);
}

}  // namespace
}  // namespace cxtrain
