#include <ATen/core/Tensor.h>

#include <cmath>
#include <filesystem>
#include <new>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/batch_size_finder.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

TEST_CASE(
    "the learning rate finder sweeps, suggests where the loss falls most steeply, and changes nothing") {
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(64, 64);  // one batch: the loss of a step then differs by the rate alone
  Regression model({.optimizer = Sgd{.lr = 0.5}});
  const at::Tensor before = test::flat_parameters(model);
  Trainer trainer(world, test::quiet(dir.path()));
  const LrFinderResult result = trainer.lr_find(model, data);
  CHECK(test::flat_parameters(model).equal(before));
  REQUIRE(result.rates.size() >= 20);
  CHECK(result.rates.size() <= 100);
  CHECK(result.rates.front() == Catch::Approx(1e-8));
  CHECK(result.rates[10] / result.rates[9] == Catch::Approx(std::pow(1e8, 0.01)));
  REQUIRE(result.suggestion());
  CHECK(*result.suggestion() > 1e-2);
  CHECK(*result.suggestion() <= 1);
  CHECK(std::filesystem::exists(trainer.log_dir() + "/lr_find.csv"));
}

TEST_CASE("the learning rate finder writes down the rate of the optimizer, which groups follow") {
  struct Grouped : Regression {
    Optimizers configure_optimizers() override {
      return OptimizerSetup{.optimizer = Sgd{.lr = 0.5},
                            .groups = {{.parameters = first->parameters(), .lr = 0.0}}};
    }
  };
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(64, 64);
  Grouped model;
  Trainer trainer(world, test::quiet(dir.path()));
  const LrFinderResult result = trainer.lr_find(model, data);
  CHECK(result.rates.front() == Catch::Approx(1e-8));
  CHECK(result.rates[10] / result.rates[9] == Catch::Approx(std::pow(1e8, 0.01)));
}

TEST_CASE("the suggestion is the rate at the steepest descent, ends and infinite losses left out") {
  LrFinderResult result;
  for (int i = 0; i < 30; ++i) {
    result.rates.push_back(i);
    result.losses.push_back(i < 5 ? 100.0 * (5 - i) : i < 15 ? 10 : i < 20 ? 10 - 2.0 * (i - 15) : 0.5);
  }
  CHECK(result.suggestion(10, 1) == 16.0);  // the cliff before 5 is skipped
  result.losses[29] = -1e9;
  CHECK(result.suggestion(10, 1) == 16.0);
  result.losses[12] = std::numeric_limits<double>::infinity();
  CHECK(result.suggestion(10, 1) == 16.0);
  CHECK_FALSE(result.suggestion(28, 1));
}

TEST_CASE("auto_lr_find trains as the same run with the suggested rate would") {
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(64, 8);
  const OptimizerSetup setup{.optimizer = Sgd{.lr = 7}};
  Regression asked(setup), tuned(setup), by_hand(setup);
  const double suggestion = [&] {
    Trainer trainer(world, test::quiet(dir.path()));
    return *trainer.lr_find(asked, data).suggestion();
  }();
  Options options = test::quiet(dir.path());
  options.trainer.auto_lr_find = true;
  Trainer(world, options).fit(tuned, data);
  options.trainer.auto_lr_find = false;
  options.optimizer = {"sgd", {{"lr", std::to_string(suggestion)}}};
  Trainer(world, options).fit(by_hand, data);
  CHECK(test::flat_parameters(tuned).allclose(test::flat_parameters(by_hand), 1e-4, 1e-6));
}

/// Runs out of memory for batches above a size.
class Limited : public Regression {
 public:
  explicit Limited(std::int64_t most) : most_(most) {}
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    largest = std::max(largest, batch.size);
    if (batch.size > most_) throw std::bad_alloc();
    return Regression::training_step(batch, idx);
  }
  std::int64_t largest = 0;

 private:
  std::int64_t most_;
};

TEST_CASE("the batch size finder finds what fits, and leaves the model as it was") {
  struct Row {
    std::int64_t fits;
    BatchSizeSearch::Mode mode;
    std::int64_t found;
  };
  using Mode = BatchSizeSearch::Mode;
  const Row row = GENERATE(Row{20, Mode::power, 16}, Row{20, Mode::binsearch, 20}, Row{2, Mode::binsearch, 2},
                           Row{1000, Mode::power, 100}, Row{99, Mode::binsearch, 99});
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(100, 8);
  Limited model(row.fits);
  const at::Tensor before = test::flat_parameters(model);
  Trainer trainer(world, test::quiet(dir.path()));
  CAPTURE(row.fits);
  CHECK(trainer.scale_batch_size(model, data, {.mode = row.mode}) == row.found);
  CHECK(test::flat_parameters(model).equal(before));
}

TEST_CASE("auto_scale_batch_size trains with the size that it finds") {
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(64, 8);
  Limited model(20);
  Options options = test::quiet(dir.path());
  options.trainer.auto_scale_batch_size = BatchScaling::power;
  const RunSummary run = Trainer(world, options).fit(model, data);
  CHECK(run.global_step == 4);  // 64 samples, 16 at a time
}

TEST_CASE("errors that are not about memory end the batch size finder, and nothing fitting is an error") {
  const test::TempDir dir;
  SoloWorld world;
  ToyData data(64, 8);
  Limited model(0);
  Trainer trainer(world, test::quiet(dir.path()));
  CHECK_THAT(test::error_of([&] { trainer.scale_batch_size(model, data); }),
             test::contains(test::code(MessageCode::out_of_memory)) &&
                 test::contains("--auto_scale_batch_size") && test::contains("batch of 2"));
  CHECK_FALSE(is_out_of_memory(std::runtime_error("the well is dry")));
  CHECK(is_out_of_memory(
      std::runtime_error("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried")));
  for (const char* text :
       {"CUDA out of memory. Tried to allocate 2.00 GiB", "CUDA error: out of memory",
        "ncclUnhandledCudaError: Out of Memory", "CUBLAS_STATUS_ALLOC_FAILED when calling"})
    CHECK(is_out_of_memory(std::runtime_error(text)));
}

}  // namespace
}  // namespace cxtrain
