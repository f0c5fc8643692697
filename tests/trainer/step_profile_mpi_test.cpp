#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

constexpr std::chrono::milliseconds kLate{5};

/// Takes `kLate` for each batch.
class LateDataset final : public Dataset {
 public:
  explicit LateDataset(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}
  std::int64_t size() const override { return dataset_->size(); }
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override {
    std::this_thread::sleep_for(kLate);
    dataset_->collate(indices, context, batch);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

class LateData final : public ToyData {
 public:
  explicit LateData(bool late) : ToyData(64 * test_world().size(), 4, /*val_samples=*/32), late_(late) {}
  Loaders train_dataloader() override {
    DataLoaderSpec spec = ToyData::train_dataloader().specs().front();
    if (late_) spec.dataset = std::make_shared<LateDataset>(spec.dataset);
    return spec;
  }

 private:
  bool late_;
};

nlohmann::json profile_in(const Trainer& trainer) {
  return nlohmann::json::parse(std::ifstream(trainer.log_dir() + "/profile.json"));
}

TEST_CASE("the profile names the phase and the rank that the others wait for") {
  const test::TempDir dir;
  World& world = test_world();
  const int last = world.size() - 1;
  Options options = test::quiet(dir.path());
  options.trainer.profiler = Profiler::simple;
  options.trainer.max_epochs = 2;
  Regression model;
  LateData data(world.rank() == last);
  Log log{world.rank() + 1};  // rank 0 would write to the console, too
  Trainer trainer(world, options);
  trainer.set_outputs({.log = &log});
  trainer.fit(model, data);
  CHECK(PhaseClock::enter(Phase::data) == Phase::other);  // no clock is left
  if (!world.is_root()) return;

  const nlohmann::json profile = profile_in(trainer);
  CHECK(profile["steps"] == 32);
  REQUIRE(profile["ranks"].size() == static_cast<std::size_t>(world.size()));
  for (const nlohmann::json& rank : profile["ranks"]) {
    INFO(rank.dump(2));
    double sum = 0;
    for (const nlohmann::json& phase : rank["phases"]) sum += phase["seconds"].get<double>();
    CHECK(sum == Approx(rank["seconds"].get<double>()).epsilon(0.01));
  }
  for (const nlohmann::json& phase : profile["phases"]) {
    if (phase["phase"] != "data") continue;
    CHECK(phase["slowest_rank"] == last);
    CHECK(phase["slowest_host"] == world.facts().hostname);
    CHECK(phase["slowest_mean"].get<double>() >= std::chrono::duration<double>(kLate).count());
  }
  const std::string said = test::slurp(trainer.log_dir() + "/rank_1.log");
  const std::string late = std::to_string(last) + " on " + world.facts().hostname;
  CHECK_THAT(said, test::contains("where the time went: 32 steps"));
  for (const char* phase :
       {"data ", "forward", "backward", "reduce", "optimizer", "hooks", "agree", "validation"})
    CHECK_THAT(said, test::contains(phase));
  CHECK((said.find(late) != std::string::npos) == (last > 0));
}

TEST_CASE("the phases that a fit runs through are those that take time") {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.profiler = Profiler::simple;
  options.trainer.enable_checkpointing = false;
  Regression model;
  ToyData data(16 * test_world().size(), 4);
  Trainer trainer(test_world(), options);
  trainer.fit(model, data);
  if (!test_world().is_root()) return;
  std::set<std::string> found;
  const nlohmann::json profile = profile_in(trainer);
  for (const nlohmann::json& phase : profile["phases"]) found.insert(phase["phase"]);
  const std::set<std::string> expected{"other",     "data",    "forward", "backward", "reduce",
                                       "optimizer", "publish", "agree",   "hooks",    "logging"};
  CHECK(found == expected);
}

TEST_CASE("a second fit and the trials of a tuner have profiles of their own") {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.trainer.profiler = Profiler::simple;
  options.trainer.max_steps = 3;
  options.trainer.auto_lr_find = true;
  Regression model;
  ToyData data(64 * test_world().size(), 4);
  Trainer trainer(test_world(), options);
  for (int fits = 0; fits < 2; ++fits) {
    trainer.fit(model, data);
    if (test_world().is_root()) CHECK(profile_in(trainer)["steps"] == 3);
  }
}

TEST_CASE("without a profiler no profile is written") {
  const test::TempDir dir;
  Regression model;
  ToyData data(16 * test_world().size(), 4);
  Trainer trainer(test_world(), test::quiet(dir.path()));
  trainer.fit(model, data);
  CHECK_FALSE(std::filesystem::exists(trainer.log_dir() + "/profile.json"));
}

}  // namespace
}  // namespace cxtrain
