#include <cerrno>
#include <nlohmann/json.hpp>

#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/faulty_filesystem.h"
#include "support/toy_models.h"

/// The files of a run, on a disk that a test has in its hands.
namespace cxtrain {
namespace {

using test::FaultyFilesystem;

/// Trains the same model with the same data each time, on `files`. `begin` is called when training begins.
RunSummary train(
    FaultyFilesystem& files, std::function<void()> begin = [] {}) {
  class AtStart : public Callback {
   public:
    explicit AtStart(std::function<void()> begin) : begin_(std::move(begin)) {}
    void on_train_start(Run&) override { begin_(); }

   private:
    std::function<void()> begin_;
  };
  SoloWorld world;
  test::ToyData data{32, 8, 20};
  torch::manual_seed(1);
  test::Regression model;
  Trainer trainer(world, test::quiet("/runs"));
  trainer.set_outputs({.files = &files, .config_yaml = "seed: 0\n"});
  trainer.add_callback(std::make_unique<AtStart>(std::move(begin)));
  return trainer.fit(model, data);
}

TEST_CASE("all files of a run are on the trainer's filesystem", "[files]") {
  FaultyFilesystem files;
  train(files);
  const std::string folder = "/runs/cxtrain_logs/version_0";
  const std::vector<std::string> names = files.list(folder);
  REQUIRE(names.size() == 8);
  CHECK(names[0] == "checkpoints");
  CHECK(names[1] == "config.yaml");
  CHECK(names[2].starts_with("events.out.tfevents."));
  CHECK(names[3] == "metrics.csv");
  CHECK(names[4] == "metrics.jsonl");
  CHECK(names[5] == "progress.json");
  CHECK(names[6] == "run.json");
  CHECK(names[7] == "run.lock");
  CHECK(read_whole_file(files, folder + "/config.yaml") == "seed: 0\n");
  CHECK(nlohmann::json::parse(read_whole_file(files, folder + "/run.json"))["status"] == "done");

  // What says how the run went, and what it was, outlives a crash of the machine.
  FaultyFilesystem disk = files.after_crash(0);
  for (const char* name : {"/config.yaml", "/run.json"}) {
    CHECK(read_whole_file(disk, folder + name) == read_whole_file(files, folder + name));
  }
}

struct WithArgs : test::Regression {
  struct Args {
    double lr = 0.1;
    std::optional<bool> bias = {};
    void fields(auto&& field) {
      field("lr", lr, "peak learning rate");
      field("bias", bias, "whether layers have a bias");
    }
  };
  explicit WithArgs(const Args& args) { save_hyperparameters(args); }
};

TEST_CASE("hyperparameters of a model that a program builds are in its run's files, once a fit", "[files]") {
  struct Recorder : MetricLogger {
    void log_hyperparams(const Hyperparameters& hparams) override { seen.push_back(hparams); }
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override {}
    void flush() override {}
    std::vector<Hyperparameters> seen;
  };
  FaultyFilesystem files;
  SoloWorld world;
  test::ToyData data{32, 8, 20};
  WithArgs model({.lr = 0.05});
  Options options = test::quiet("/runs");
  options.model.name.clear();
  options.optimizer.args["lr"] = "0.02";
  Trainer trainer(world, options);
  trainer.set_outputs({.files = &files, .config_yaml = "seed: 0\n"});
  const Recorder& logger = trainer.add_logger<Recorder>();
  trainer.fit(model, data);
  trainer.test(model, data);
  CHECK(logger.seen == std::vector<Hyperparameters>{
                           {{"model.bias", "auto"}, {"model.lr", "0.05"}, {"optimizer.lr", "0.02"}}});
  const std::string folder = "/runs/cxtrain_logs/version_0";
  CHECK(read_whole_file(files, folder + "/config.yaml") ==
        "seed: 0\nhyperparameters:\n  model.bias: \"auto\"\n  model.lr: 0.05\n");
  const std::vector<std::string> checkpoints = files.list(folder + "/checkpoints");
  REQUIRE(checkpoints.size() == 1);
  CHECK_THAT(read_whole_file(files, folder + "/checkpoints/" + checkpoints[0] + "/manifest.json"),
             test::contains("model.lr: 0.05"));
}

TEST_CASE("a disk that fails from a run's first step on costs files, and not the training", "[files]") {
  FaultyFilesystem good, bad;
  const RunSummary expected = train(good);
  const int error = GENERATE(ENOSPC, EIO, EROFS, ESTALE);
  const RunSummary trained =
      train(bad, [&] { bad.fail({.call = bad.calls(), .error = error, .lasting = true}); });
  CHECK(bad.failed());
  CHECK(trained.status == "done");
  CHECK(trained.global_step == expected.global_step);
  CHECK(trained.parameters_sha256 == expected.parameters_sha256);
}

TEST_CASE("a disk that fails before a run begins refuses it", "[files]") {
  FaultyFilesystem files;
  files.fail({.call = 0, .error = EROFS, .lasting = true});
  CHECK_THAT(test::error_of([&] { train(files); }),
             test::contains(test::code(MessageCode::file_failed)) && test::contains("--default_root_dir") &&
                 test::contains("Read-only") && test::contains("'/runs/cxtrain_logs'"));
}

}  // namespace
}  // namespace cxtrain
