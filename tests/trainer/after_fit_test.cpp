#include <torch/csrc/jit/serialization/pickle.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "checkpoint/weights_support.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/checkpoint/load_weights.h"
#include "cxtrain/data/dataset_views.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"

/// What follows a fit on the same trainer belongs to the same run.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

struct KeptRuns : test::Setting {
  ToyData data{32, 8, 20};

  std::string runs() const { return dir.path() + "/cxtrain_logs"; }
};

std::vector<nlohmann::json> rows(const std::string& folder) {
  std::ifstream file(folder + "/metrics.jsonl");
  std::vector<nlohmann::json> result;
  for (std::string line; std::getline(file, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

TEST_CASE("a test after a fit is logged at the step reached, in the fit's folder") {
  KeptRuns setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  trainer.fit(model, setting.data);
  const std::string folder = trainer.log_dir();
  const std::size_t before = rows(folder).size();
  const RunSummary tested = trainer.test(model, setting.data);
  CHECK(trainer.log_dir() == folder);
  CHECK_FALSE(std::filesystem::exists(setting.runs() + "/version_1"));
  const auto after = rows(folder);
  REQUIRE(after.size() == before + 1);
  CHECK(after.back()["step"] == 3);
  CHECK(after.back()["epoch"] == 1);
  CHECK(after.back().contains("test_loss"));
  CHECK(tested.global_step == 4);
  CHECK(tested.metrics.contains("train_loss"));
  CHECK(tested.metrics.contains("test_loss"));

  trainer.fit(model, setting.data);  // another fit is another run
  CHECK(trainer.log_dir() != folder);
}

TEST_CASE("a fit resumes the checkpoint that the call names, whatever the trainer did before") {
  KeptRuns setting;
  setting.options.trainer.max_epochs = 3;
  Regression straight;
  Trainer whole(setting.world, setting.options);
  CHECK(whole.fit(straight, setting.data).global_step == 12);

  Options two = setting.options;
  two.trainer.max_epochs = 2;
  Regression begun, resumed;
  Trainer first(setting.world, two), second(setting.world, setting.options);
  const auto& best = first.add_callback<ModelCheckpoint>({.save_last = true});
  first.fit(begun, setting.data);
  Regression other;
  second.fit(other, setting.data);
  CHECK(second.fit(resumed, setting.data, {.ckpt_path = best.last_model_path()}).global_step == 12);
  CHECK(at::equal(test::flat_parameters(resumed), test::flat_parameters(straight)));
  CHECK_THROWS_AS(second.fit(resumed, setting.data, {.ckpt_path = "nowhere.ckpt"}), Error);
}

/// Two validation sets, of 12 and of 5 samples.
class TwoValidationSets : public ToyData {
 public:
  TwoValidationSets() : ToyData(32, 8, 20) {}
  Loaders val_dataloader() override { return {part(0, 12), part(12, 5)}; }
  Loaders test_dataloader() override { return val_dataloader(); }

 private:
  DataLoaderSpec part(std::int64_t begin, std::int64_t size) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
    std::iota(indices.begin(), indices.end(), begin);
    return {subset(ToyData::val_dataloader().specs()[0].dataset, indices), 4};
  }
};

TEST_CASE("several validation sets are read one after the other, with a metric of each") {
  class Sums : public Regression {
   public:
    void validation_step(const Batch& batch, std::int64_t batch_idx) override {
      seen += std::to_string(dataloader_idx()) + std::to_string(batch_idx) + " ";
      log("samples", static_cast<double>(batch.size), {.reduce_fx = ReduceFx::sum});
    }
    void test_step(const Batch& batch, std::int64_t batch_idx) override { validation_step(batch, batch_idx); }
    void on_validation_epoch_end() override { log("all", 1.0); }
    std::string seen;
  };
  KeptRuns setting;
  TwoValidationSets data;
  Sums model;
  Trainer trainer(setting.world, setting.options);
  const RunSummary run = trainer.fit(model, data);
  CHECK(run.metrics.at("samples/dataloader_idx_0") == 12);
  CHECK(run.metrics.at("samples/dataloader_idx_1") == 5);
  CHECK(run.metrics.at("all") == 1);
  CHECK(model.seen == "00 01 02 10 11 ");
  model.seen.clear();
  setting.options.trainer.limit_test_batches = BatchLimit{std::int64_t{1}};
  CHECK(Trainer(setting.world, setting.options).test(model, data).metrics.at("samples/dataloader_idx_1") ==
        4);
  CHECK(model.seen == "00 10 ");
  const auto row = rows(trainer.log_dir()).back();
  CHECK(row.contains("samples/dataloader_idx_0"));
  CHECK(row.contains("all"));
}

TEST_CASE("what follows a fit keeps the fit's figures") {
  KeptRuns setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  const RunSummary fit = trainer.fit(model, setting.data), test = trainer.test(model, setting.data);
  CHECK(fit.seconds > 0);
  CHECK(test.seconds == fit.seconds);
  CHECK(test.samples_per_second == fit.samples_per_second);
  CHECK(test.first_step_seconds == fit.first_step_seconds);
  std::ifstream file(trainer.log_dir() + "/run.json");
  CHECK(nlohmann::json::parse(file)["seconds"] == fit.seconds);
}

/// Whose validation says what it was told to, epoch by epoch.
class Judged : public Regression {
 public:
  void validation_step(const Batch& batch, std::int64_t) override {
    constexpr std::array kScores{0.5, 0.2, 0.9};
    log("score", kScores.at(static_cast<std::size_t>(current_epoch())), {.batch_size = batch.size});
  }
};

TEST_CASE("the best checkpoint of a fit is evaluated in the same program") {
  KeptRuns setting;
  setting.options.trainer.max_epochs = 3;
  Judged model;
  Trainer trainer(setting.world, setting.options);
  const auto& best =
      trainer.add_callback<ModelCheckpoint>(ModelCheckpoint::Args{.monitor = "score", .save_last = true});
  trainer.fit(model, setting.data);
  const at::Tensor last = test::flat_parameters(model);
  CHECK_THAT(best.best_model_path(), test::contains("epoch=1-step=8"));
  CHECK(best.best_model_score() == 0.2);
  trainer.test(model, setting.data);
  CHECK(at::equal(test::flat_parameters(model), last));
  // Of this trainer's run, not of one that is newer.
  std::filesystem::create_directory(setting.runs() + "/version_9");
  trainer.test(model, setting.data, {.ckpt_path = "best"});
  const at::Tensor found = test::flat_parameters(model);
  CHECK_FALSE(at::equal(found, last));
  Judged expected;
  load_weights(expected, best.best_model_path());
  CHECK(at::equal(found, test::flat_parameters(expected)));
  trainer.test(model, setting.data, {.ckpt_path = "last"});
  CHECK(at::equal(test::flat_parameters(model), last));
  trainer.predict(model, setting.data, {.ckpt_path = best.best_model_path()});
  CHECK(at::equal(test::flat_parameters(model), found));
  CHECK_THAT(test::error_of([&] { trainer.validate(model, setting.data, {.ckpt_path = "/none"}); }),
             test::contains(test::code(MessageCode::checkpoint_missing)) && test::contains("'/none'"));
}

TEST_CASE("a fit goes on from the last or the best checkpoint of the trainer's own fit") {
  const std::string which = GENERATE("last", "best");
  KeptRuns setting;
  setting.options.trainer.max_epochs = 3;
  Judged model, of_another;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback<ModelCheckpoint>({.monitor = "score", .save_last = true});
  trainer.fit(model, setting.data);
  const std::string first = trainer.log_dir();
  const at::Tensor trained = test::flat_parameters(model);
  setting.options.trainer.max_epochs = 1;
  Trainer newer(setting.world, setting.options);
  newer.fit(of_another, setting.data);
  REQUIRE(newer.log_dir() > first);
  Judged resumed;
  trainer.fit(resumed, setting.data, {.ckpt_path = which});
  CHECK(at::equal(test::flat_parameters(resumed), trained));
  // The last checkpoint has all 12 steps, the best one has 8, and the last one of the newer run has 4.
  CHECK(resumed.training_steps == (which == "last" ? 0 : 4));
  CHECK((trainer.log_dir() == first) == (which == "last"));  // in place; the best begins a new run
}

/// Sends the process a signal after the first step.
class SignalsItself : public Callback {
  void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t) override {
    std::raise(SIGTERM);
  }
};

TEST_CASE("what follows a fit that a signal has ended is left out, with the fit's status") {
  KeptRuns setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback(std::make_unique<SignalsItself>());
  const RunSummary fit = trainer.fit(model, setting.data);
  CHECK(fit.status == "stopped");
  try {
    trainer.test(model, setting.data);
    FAIL("it was tested");
  } catch (const StoppedBefore& stopped) {
    CHECK(static_cast<int>(stopped.code()) == fit.exit_code);
    CHECK_THAT(stopped.what(), test::contains("test ") && test::contains("SIGTERM"));
  }
  CHECK_THROWS_AS(trainer.predict(model, setting.data), StoppedBefore);
  CHECK_THROWS_AS(trainer.fit(model, setting.data, {.ckpt_path = "/none"}), StoppedBefore);
  CHECK(trainer.last_summary()->status == "stopped");
}

TEST_CASE("hooks see which call of the trainer runs") {
  struct Stages final : Callback {
    void on_validation_end(Run& run) override { seen.push_back(run.progress().stage); }
    void on_test_end(Run& run) override { seen.push_back(run.progress().stage); }
    std::vector<Stage> seen;
  };
  KeptRuns setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  const Stages& stages = trainer.add_callback<Stages>();
  trainer.fit(model, setting.data);
  const std::vector<Stage> of_fit = stages.seen;
  trainer.validate(model, setting.data);
  trainer.test(model, setting.data);
  REQUIRE_FALSE(of_fit.empty());
  CHECK(std::ranges::count(of_fit, Stage::fit) == std::ssize(of_fit));
  CHECK(stages.seen[of_fit.size()] == Stage::validate);
  CHECK(stages.seen.back() == Stage::test);
}

TEST_CASE("a model gets the weights that the options name once, before anything else") {
  KeptRuns setting;
  setting.options.model_weights.path =
      setting.dir.write("weights", test::safetensors_of({{"second.bias", at::full({2}, 7)}}));
  setting.options.model_weights.strict = false;
  Regression model({.optimizer = Sgd{.lr = 0}});
  Trainer trainer(setting.world, setting.options);
  trainer.fit(model, setting.data);
  CHECK(model.second->bias.equal(at::full({2}, 7.F)));
  const at::NoGradGuard no_grad;
  model.second->bias.zero_();
  trainer.test(model, setting.data);
  CHECK(model.second->bias.equal(at::zeros({2})));
}

TEST_CASE("a prediction leaves a file with its rows and the samples that they belong to") {
  KeptRuns setting;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  trainer.predict(model, setting.data);
  std::ifstream file(trainer.log_dir() + "/predictions_rank_0.pt", std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(bytes.empty());
  const auto saved = torch::jit::pickle_load(bytes).toGenericDict();
  CHECK(saved.at("predictions").toTensor().sizes() == at::IntArrayRef({20, 2}));
  const at::Tensor indices = saved.at("indices").toTensor();
  REQUIRE(indices.numel() == 20);
  for (std::int64_t i = 0; i < 20; ++i) CHECK(indices[i].item<std::int64_t>() == i);
}

TEST_CASE("outputs that are no rows are kept batch by batch") {
  Predictions predictions;
  predictions.outputs = {at::ones({2, 3}), at::ones({1, 4})};
  predictions.indices = {5, 6, 7};
  const auto saved = torch::jit::pickle_load(to_pt(predictions)).toGenericDict();
  CHECK(saved.at("predictions").toTensorVector().size() == 2);
}

TEST_CASE("without a logger nothing is written") {
  KeptRuns setting;
  setting.options.trainer.logger = false;
  Regression model;
  Trainer trainer(setting.world, setting.options);
  trainer.fit(model, setting.data);
  CHECK(trainer.log_dir().empty());
  CHECK_FALSE(std::filesystem::exists(setting.runs()));
}

TEST_CASE("a model's own callbacks run") {
  class Counts : public Callback {
   public:
    explicit Counts(int& starts) : starts_(starts) {}
    void on_train_start(Run& run) override {
      ++starts_;
      CHECK(run.module<Regression>().first->weight.defined());
      CHECK_FALSE(run.log_dir().empty());
      CHECK(run.progress().max_steps == -1);
    }
    void on_train_batch_end(Run&, const StepOutput& output, const Batch&, std::int64_t) override {
      CHECK(output.loss.defined());
      CHECK_FALSE(output.loss.requires_grad());
    }

   private:
    int& starts_;
  };
  class WithCallback : public Regression {
   public:
    std::vector<std::unique_ptr<Callback>> configure_callbacks() override {
      std::vector<std::unique_ptr<Callback>> own;
      own.push_back(std::make_unique<Counts>(starts));
      return own;
    }
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      CHECK(world_size() == 1);
      CHECK(global_rank() == 0);
      CHECK(max_epochs() == 1);
      CHECK(num_batches() == 4);
      CHECK(&run().module() == this);
      CHECK(run().progress().batch_idx == idx);
      return Regression::training_step(batch, idx);
    }
    int starts = 0;
  };
  KeptRuns setting;
  WithCallback model;
  Trainer(setting.world, setting.options).fit(model, setting.data);
  CHECK(model.starts == 1);
}

}  // namespace
}  // namespace cxtrain
