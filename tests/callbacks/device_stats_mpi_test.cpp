#include "cxtrain/trainer/trainer.h"

#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

TEST_CASE("device_stats logs what every rank's process takes, on every rank alike") {
  const test::TempDir dir;
  Options options = test::quiet(dir.path());
  options.callbacks = {{"device_stats", {}}};
  options.trainer.logger = true;
  options.trainer.log_every_n_steps = 2;
  options.trainer.max_epochs = 1;
  const int ranks = test_world().size();
  test::ToyData data(16 * ranks, 4);
  test::Regression model;
  Trainer trainer(test_world(), options);
  const RunSummary summary = trainer.fit(model, data);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string place = ranks > 1 ? "rank: " + std::to_string(rank) + "/" : "";
    const std::string name = "DeviceStatsMonitor.on_train_batch_end/" + place + "cpu_vm_percent";
    INFO(name);
    REQUIRE(summary.metrics.count(name) == 1);
    const double percent = summary.metrics.at(name);
    CHECK(percent > 0);
    CHECK(percent < 100);
  }
}

}  // namespace
}  // namespace cxtrain
