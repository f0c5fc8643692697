#include "cxtrain/cluster/solo_world.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// A run that never came to be: the trainer is as it was.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

TEST_CASE("an error while a run opens leaves the trainer whole, with the user's callbacks and loggers") {
  class WithoutCallbacks : public Regression {
   public:
    std::vector<std::unique_ptr<Callback>> configure_callbacks() override {
      throw DataError("no such schedule of callbacks");
    }
  };
  struct CountsStarts : Callback {
    explicit CountsStarts(int& count) : starts_(count) {}
    void on_fit_start(RunView&) override { ++starts_; }
    int& starts_;
  };
  struct CountsRows : MetricLogger {
    explicit CountsRows(int& count) : rows_(count) {}
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
    void flush() override {}
    int& rows_;
  };
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(32, 8, 16);
  int starts = 0, rows = 0;
  Trainer trainer(world, test::quiet(dir.path()));
  trainer.add_callback(std::make_unique<CountsStarts>(starts));
  trainer.add_logger(std::make_unique<CountsRows>(rows));
  {
    WithoutCallbacks model;
    CHECK_THROWS_WITH(trainer.fit(model, data), test::contains("no such schedule of callbacks"));
  }
  // What the program says of an error names the place: the run that would have known it is gone.
  CHECK(trainer.where() == "epoch 0, step 0");
  CHECK(starts == 0);
  Regression model;
  CHECK(trainer.fit(model, data).status == "done");
  CHECK(trainer.where().empty());
  CHECK(starts == 1);
  CHECK(rows > 0);  // of its validation
}

}  // namespace
}  // namespace cxtrain
