#include <ATen/ops/full.h>

#include <numeric>

#include "cxtrain/data/data_loader.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"
#include "trainer/resume_support.h"

/// Trainings and evaluations on streams, whose shards have different lengths.
namespace cxtrain {
namespace {

using namespace test::resume;
using test::quiet;
using test::TempDir;

/// Random rows. Shard r has `size + more * r` samples.
class Rows8 : public StreamDataset {
 public:
  Rows8(std::int64_t size, std::int64_t more, bool saves) : size_(size), more_(more), saves_(saves) {}
  std::unique_ptr<Stream> open(const StreamContext& context) const override {
    return std::make_unique<Shard>(context, size_ + more_ * context.shard.index, saves_);
  }

 private:
  class Shard : public Stream {
   public:
    Shard(const StreamContext& context, std::int64_t size, bool saves)
        : context_(context), size_(size), saves_(saves) {}
    bool next(Batch& sample) override {
      if (read_ == size_) return false;
      SampleRandom random(context_.seed, context_.epoch, read_++, context_.shard.index);
      at::Generator generator = random.generator();
      sample = {{at::randn({6}, generator), at::randn({2}, generator)}};
      return true;
    }
    void save(StateDict& state) const override {
      if (saves_) state.set("read", read_);
    }
    void load(const StateDict& state) override { read_ = state.integer("read"); }

   private:
    StreamContext context_;
    std::int64_t size_, read_ = 0;
    bool saves_;
  };
  std::int64_t size_, more_;
  bool saves_;
};

class StreamData : public DataModule {
 public:
  explicit StreamData(std::shared_ptr<const StreamDataset> stream, std::int64_t val_size = 0)
      : stream_(std::move(stream)), val_size_(val_size) {}
  Loaders train_dataloader() override { return {stream_, 8}; }
  Loaders val_dataloader() override {
    if (val_size_ == 0) return {};
    return {std::make_shared<Rows8>(val_size_, 5, true), 4};
  }

 private:
  std::shared_ptr<const StreamDataset> stream_;
  std::int64_t val_size_;
};

/// Counts the samples of this rank, by step.
class Counting : public test::Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    sizes.push_back(batch.size);
    return Regression::training_step(batch, idx);
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    validated += batch.size;
    log("val_count", static_cast<double>(batch.size), {.reduce_fx = ReduceFx::sum});
    CHECK(num_batches() == -1);
  }
  void on_train_epoch_end() override { ++epochs; }
  std::vector<std::int64_t> sizes;
  std::int64_t validated = 0;
  int epochs = 0;
};

Options options_of(const TempDir& dir, std::int64_t epochs = 2) {
  Options options = quiet(dir.path());
  options.trainer.logger = false;
  options.trainer.max_epochs = epochs;
  options.trainer.strategy = test_world().size() > 1 ? "ddp" : "single";
  return options;
}

std::int64_t steps_of(std::int64_t samples, std::int64_t accumulate) {
  const std::int64_t batches = (samples + 7) / 8;
  return (batches + accumulate - 1) / accumulate;
}

TEST_CASE("an epoch of streams ends when the streams of all ranks have ended") {
  const TempDir dir;
  Options options = options_of(dir);
  const std::int64_t more = GENERATE(0, 13), accumulate = GENERATE(1, 3);
  options.trainer.accumulate_grad_batches = accumulate;
  options.data.num_workers = GENERATE(0, 3);
  const std::int64_t longest = 20 + more * (test_world().size() - 1);
  const std::int64_t own = 20 + more * test_world().rank();
  StreamData data(std::make_shared<Rows8>(20, more, true), /*val_size=*/9);
  Counting model;
  Trainer trainer(test_world(), options);
  const RunSummary summary = trainer.fit(model, data);
  CHECK(summary.status == "done");
  CHECK(summary.epochs == 2);
  CHECK(summary.global_step == 2 * steps_of(longest, accumulate));
  CHECK(std::accumulate(model.sizes.begin(), model.sizes.end(), std::int64_t{0}) == 2 * own);
  CHECK(model.epochs == 2);
  CHECK(model.validated == 2 * (9 + 5 * test_world().rank()));  // at the end of each epoch
  std::int64_t of_all = 0;
  for (int rank = 0; rank < test_world().size(); ++rank) of_all += 9 + 5 * rank;
  CHECK(summary.metrics.at("val_count") == static_cast<double>(of_all));
  if (test_world().size() > 1) CHECK(summary.parameters_equal_on_all_ranks == true);
}

TEST_CASE("limits and intervals in batches hold for streams") {
  const TempDir dir;
  Options options = options_of(dir);
  StreamData data(std::make_shared<Rows8>(80, 0, true), /*val_size=*/4);
  Counting model;
  SECTION("limit_train_batches") {
    options.trainer.limit_train_batches = {std::int64_t{3}};
    const RunSummary summary = Trainer(test_world(), options).fit(model, data);
    CHECK(summary.global_step == 6);
    CHECK(summary.epochs == 2);
    CHECK(model.validated == 2 * (4 + 5 * test_world().rank()));
  }
  SECTION("val_check_interval and max_steps") {
    options.trainer.val_check_interval = BatchLimit{std::int64_t{4}};
    options.trainer.max_steps = 13;
    const RunSummary summary = Trainer(test_world(), options).fit(model, data);
    CHECK(summary.global_step == 13);
    CHECK(summary.epochs == 1);
    CHECK(model.validated ==
          2 * (4 + 5 * test_world().rank()));  // after 4 and 8 batches; the second epoch has 3
  }
  SECTION("a schedule by steps") {
    options.trainer.max_steps = 13;
    Counting scheduled;
    class WithSchedule : public Counting {
      Optimizers configure_optimizers() override {
        OptimizerSetup setup{.optimizer = Adam{.lr = 0.01}};
        setup.schedule = CosineSchedule{};
        setup.interval = Interval::step;
        return setup;
      }
    };
    WithSchedule with_steps, without;
    CHECK(Trainer(test_world(), options).fit(with_steps, data).global_step == 13);
    options.trainer.max_steps = -1;
    const std::string error = test::error_of([&] { Trainer(test_world(), options).fit(without, data); });
    CHECK(error.find("with a stream") != std::string::npos);
  }
}

TEST_CASE("options that need the length of a stream are rejected") {
  const TempDir dir;
  Options options = options_of(dir);
  StreamData data(std::make_shared<Rows8>(80, 0, true), /*val_size=*/4);
  Counting model;
  const int which = GENERATE(0, 1, 2, 3);
  if (which == 0) options.trainer.limit_train_batches = {0.5};
  if (which == 1) options.trainer.val_check_interval = BatchLimit{0.5};
  if (which == 2) options.trainer.check_val_every_n_epoch.reset();
  if (which == 3) options.trainer.stochastic_weight_avg = true;
  CHECK(test::error_of([&] {
          Trainer(test_world(), options).fit(model, data);
        }).find(test::code(MessageCode::conflicting_options)) != std::string::npos);
}

TEST_CASE("ranks whose streams may end first step their optimizers together") {
  class Manual : public Counting {
   public:
    Manual() { automatic_optimization = false; }
  };
  if (test_world().size() == 1) return;
  const TempDir dir;
  StreamData data(std::make_shared<Rows8>(20, 5, true));
  Manual model;
  Trainer trainer(test_world(), options_of(dir));
  CHECK(test::error_of([&] {
          trainer.fit(model, data);
        }).find(test::code(MessageCode::conflicting_options)) != std::string::npos);
}

TEST_CASE("streams without a sample on any rank end the run") {
  const TempDir dir;
  StreamData data(std::make_shared<Rows8>(0, 0, true));
  Counting model;
  Trainer trainer(test_world(), options_of(dir));
  CHECK(test::error_of([&] { trainer.fit(model, data); }).find(test::code(MessageCode::no_data)) !=
        std::string::npos);
}

TEST_CASE("a training on streams resumes to the same bits", "[resume]") {
  const std::int64_t after = GENERATE(7, 31);
  const bool saves = GENERATE(false, true);
  const int workers = GENERATE(0, 2);
  Case what{.strategy = "ddp",
            .prepare = [=](Options& options) { options.data.num_workers = workers; },
            .optimizer = "adam",
            .setup = {.optimizer = Adam{.lr = 0.01}},
            .precision = "32-true"};
  what.accumulate = after == 7 ? 1 : 3;
  what.epochs = 4;
  what.weight_averaging = false;
  what.data = [=] { return std::make_unique<StreamData>(std::make_shared<Rows8>(92, 12, saves), 9); };
  CAPTURE(after, saves, workers);
  const Result undisturbed = train(what, {});
  const Result whole = train(what, {.after_batches = after});
  REQUIRE(whole.saved.has_value());
  CHECK(whole.saved->has_section("stream"));
  check_same_end(undisturbed, whole);
  check_same_end(whole, train(what, {}, {.checkpoint = &*whole.saved}));
}

}  // namespace
}  // namespace cxtrain
