#include <cmath>

#include "cxtrain/data/tensor_dataset.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/random_rows.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"
#include "trainer/resume_support.h"

/// Trainings that read several loaders.
namespace cxtrain {
namespace {

using namespace test::resume;
using test::quiet;
using test::TempDir;

std::shared_ptr<TensorDataset> whole_numbers(std::int64_t count, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{at::randint(-4, 5, {count, 8}, generator).to(at::kFloat)});
}

/// A loader of 48 samples in global batches of 12, and one of 36 in batches of 24.
class TwoLoaders : public DataModule {
 public:
  TwoLoaders(Combine mode, int ranks) : mode_(mode), ranks_(ranks) {}
  Loaders train_dataloader() override {
    return {mode_,
            {{.dataset = whole_numbers(48, 1), .batch_size = 12 / ranks_, .shuffle = true, .name = "plain"},
             {.dataset = whole_numbers(36, 2), .batch_size = 24 / ranks_, .shuffle = true, .name = "heavy"}}};
  }

 private:
  Combine mode_;
  int ranks_;
};

/// The loss is the sum of a linear model's outputs, by loader: gradients are whole numbers over powers of two
/// and three.
class OfTwoLoaders : public test::Exact {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    steps.push_back(dataloader_idx());
    if (batch.parts.empty()) return mean(batch);
    at::Tensor loss = mean(batch.part("plain"));
    if (batch.has("heavy")) loss = loss + 2 * mean(batch.part("heavy"));
    return loss;
  }
  std::vector<int> steps;

 private:
  at::Tensor mean(const Batch& batch) {
    return layer->forward(batch[0]).sum().div(static_cast<double>(batch.size));
  }
};

struct Trained {
  at::Tensor parameters;
  RunSummary summary;
  std::vector<int> steps;
};

Trained train_two(World& world, Combine mode, int ranks, std::int64_t accumulate = 1) {
  const TempDir dir;
  Options options = quiet(dir.path());
  options.trainer.logger = false;
  options.trainer.max_epochs = 2;
  options.trainer.accumulate_grad_batches = accumulate;
  options.trainer.strategy = world.size() > 1 ? "ddp" : "single";
  OfTwoLoaders model;
  TwoLoaders data(mode, ranks);
  Trainer trainer(world, options);
  const RunSummary summary = trainer.fit(model, data);
  return {test::flat_parameters(model), summary, model.steps};
}

TEST_CASE("several training loaders train alike on any number of ranks") {
  const int ranks = test_world().size();
  if (12 % ranks != 0) return;
  const Combine mode =
      GENERATE(Combine::max_size_cycle, Combine::max_size, Combine::min_size, Combine::sequential);
  const std::int64_t accumulate = GENERATE(1, 3);
  CAPTURE(static_cast<int>(mode), accumulate);
  const Trained here = train_two(test_world(), mode, ranks, accumulate);
  SoloWorld solo;
  const Trained alone = train_two(solo, mode, 1, accumulate);
  CHECK(at::allclose(here.parameters, alone.parameters, 0, 1e-5));
  CHECK(here.summary.global_step == alone.summary.global_step);
  CHECK(here.steps == alone.steps);
  const std::int64_t batches = mode == Combine::min_size ? 2 : mode == Combine::sequential ? 6 : 4;
  CHECK(here.summary.global_step == 2 * ((batches + accumulate - 1) / accumulate));
  if (mode == Combine::sequential) CHECK(here.steps == std::vector<int>{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1});
}

TEST_CASE("a training of several loaders resumes to the same bits", "[resume]") {
  const int ranks = test_world().size();
  const Combine mode =
      GENERATE(Combine::max_size_cycle, Combine::max_size, Combine::min_size, Combine::sequential);
  const std::int64_t after = GENERATE(17, 31);
  class Sides : public DataModule {
   public:
    Sides(Combine mode, int ranks) : mode_(mode), ranks_(ranks) {}
    Loaders train_dataloader() override {
      return {
          mode_,
          {{test::random_rows(96 * ranks_ + 5, 1), 8, true}, {test::random_rows(40 * ranks_, 2), 4, true}}};
    }
    Loaders val_dataloader() override { return {test::random_rows(16 * ranks_, 3), 8}; }

   private:
    Combine mode_;
    int ranks_;
  };
  Case what{.strategy = "ddp",
            .prepare = [](Options&) {},
            .optimizer = "adam",
            .setup = {.optimizer = Adam{.lr = 0.01}},
            .precision = "32-true"};
  what.accumulate = after == 17 ? 1 : 3;
  what.epochs = 4;
  what.data = [=] { return std::make_unique<Sides>(mode, ranks); };
  CAPTURE(static_cast<int>(mode), after);
  const Result whole = train(what, {.after_batches = after});
  REQUIRE(whole.saved.has_value());
  check_same_end(whole, train(what, {}, {.checkpoint = &*whole.saved}));
}

TEST_CASE("loaders side by side need a sample of each on every rank, and no replicas") {
  class Uneven36 : public TwoLoaders {
   public:
    Uneven36() : TwoLoaders(Combine::max_size, 1) {}
    Loaders train_dataloader() override {
      return {Combine::max_size, {{whole_numbers(7, 1), 4}, {whole_numbers(12, 2), 4}}};
    }
  };
  const TempDir dir;
  Options options = quiet(dir.path());
  options.data.uneven = Uneven::exact;
  options.trainer.strategy = test_world().size() > 1 ? "ddp" : "single";
  test::Exact model;
  Uneven36 data;
  Trainer trainer(test_world(), options);
  const std::string error = test::error_of([&] { trainer.fit(model, data); });
  const bool divides = 7 % (4 * test_world().size()) % test_world().size() == 0;
  CHECK(error.empty() == divides);
  CHECK((divides || error.find("'0'") != std::string::npos));
}

}  // namespace
}  // namespace cxtrain
