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
  trainer.set_filesystem(files);
  trainer.set_config_text("seed: 0\n");
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
