#include <ATen/ATen.h>

#include "cxtrain/metrics/async_scalars.h"
#include "cxtrain/metrics/bar_reader.h"
#include "cxtrain/metrics/metric_store.h"
#include "cxtrain/trainer/hooks.h"
#include "cxtrain/trainer/skipped_steps.h"
#include "cxtrain/trainer/train_context.h"
#include "fake_run.h"
#include "fixture.h"

/// Metrics whose values are on a device: who shows or writes them does not have it wait for the host.
namespace cxtrain {
namespace {

using Names = std::vector<std::string>;
using test::HostReads;

struct MetricsOnADevice : test::TwoFakeDevices {
  at::Tensor number(double value) const { return at::full({}, value, at::device(device).dtype(at::kFloat)); }

  SoloWorld world;
  MetricStore metrics;
  const LogScope scope{metrics, hooks::kTrainingStep, 1};
};

}  // namespace

TEST_CASE_METHOD(MetricsOnADevice, "numbers come to the host without anybody waiting") {
  const std::vector<at::Tensor> numbers{number(1.5), at::full({1}, 2, at::device(test::fake_device(1))),
                                        at::Tensor(), at::full({}, 7, at::kLong), number(-3)};
  test::hold(main);
  const HostReads reads;
  const AsyncScalars values(numbers);
  CHECK_FALSE(values.arrived());
  CHECK(reads.count() == 0);
  test::release(main);
  CHECK(values.arrived());
  CHECK(values.wait() == std::vector<double>{1.5, 2, 0, 7, -3});
  CHECK(AsyncScalars().wait().empty());
  CHECK(AsyncScalars().arrived());
}

TEST_CASE_METHOD(MetricsOnADevice, "what a step has logged is taken at once and read later") {
  metrics.log("loss", number(4), {});
  metrics.log("rate", 0.25, {});
  const HostReads taking;
  const MetricStore::StepValues taken = metrics.take_step_values();
  CHECK(taking.count() == 0);
  metrics.log("loss", number(5), {});  // the next step's
  const HostReads reading;
  CHECK(metrics.read(taken, world) == MetricStore::Values{{"loss", 4}, {"rate", 0.25}});
  CHECK(reading.names() == Names{"synchronize event"});
  CHECK(metrics.last("loss") == 5.0);
}

TEST_CASE_METHOD(MetricsOnADevice, "the bar shows what has come, and waits for nothing but its end") {
  metrics.log("loss", number(4), {.prog_bar = true});
  metrics.log("rate", 0.25, {.prog_bar = true});
  {
    const HostReads reads;
    BarReader bar;
    test::hold(main);
    CHECK(bar.read_arrived(metrics) == MetricStore::Values{{"rate", 0.25}});  // asks for the loss
    CHECK(bar.read_arrived(metrics) == MetricStore::Values{{"rate", 0.25}});
    test::release(main);
    metrics.log("loss", number(5), {.prog_bar = true});
    CHECK(bar.read_arrived(metrics) == MetricStore::Values{{"loss", 4}, {"rate", 0.25}});
    CHECK(bar.read_arrived(metrics) == MetricStore::Values{{"loss", 5}, {"rate", 0.25}});
    CHECK(reads.names() == Names{"synchronize event", "synchronize event"});  // of events that have ended
  }
  metrics.log("loss", number(6), {.prog_bar = true});
  CHECK(BarReader::read(metrics) == MetricStore::Values{{"loss", 6}, {"rate", 0.25}});
}

TEST_CASE_METHOD(test::TwoFakeDevices, "a loss or a parameter that is not finite is found a step later") {
  struct Broken final : test::Regression {
    using Regression::Regression;
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      at::Tensor value = loss(batch);
      if (training_steps++ != 4) return value;
      if (in_loss) return value * NAN;
      const at::NoGradGuard no_grad;
      first->weight.fill_(INFINITY);
      return value;
    }
    bool in_loss = true;
  };
  const bool in_loss = GENERATE(true, false);
  SoloWorld world;
  Options options = test::short_run("single");
  options.trainer.terminate_on_nan = true;
  test::FakeAccelerator accelerator(test::kFakeDevices);
  test::ToyData data(96, 12);
  Broken model(OptimizerSetup{.optimizer = Sgd{.lr = 0.1}});
  model.in_loss = in_loss;
  Trainer trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator);
  try {
    trainer.fit(model, data);
    FAIL("nothing was found");
  } catch (const TrainingError& error) {
    CHECK(error.message_code() == MessageCode::not_finite);
    CHECK_THAT(error.what(), test::contains(in_loss ? "loss" : "first.weight"));
  }
  CHECK(model.training_steps == 6);
}

TEST_CASE_METHOD(test::TwoFakeDevices, "too many skipped steps in a row are found soon, and no others") {
  const auto flag = [&](double value) { return at::full({1}, value, at::device(device).dtype(at::kFloat)); };
  const at::Tensor skipped = flag(1), done = flag(0);
  SkippedSteps steps(8, device);
  for (int i = 0; i < 40; ++i) CHECK_FALSE(steps.too_many(i % 8 == 7 ? done : skipped));
  int found = 1;
  while (!steps.too_many(skipped)) REQUIRE(++found < 20);
  CHECK(found == 9);  // it looks at every second step, and a step later has the answer
  SkippedSteps never(0, device);
  for (int i = 0; i < 40; ++i) CHECK_FALSE(never.too_many(skipped));
}

namespace {

/// The rows of a training, and what the host waited for in steps that are logged.
struct Logged {
  std::vector<std::tuple<std::int64_t, std::int64_t, std::vector<std::pair<std::string, float>>>> rows;
  Names reads;
};

Logged logged_run(bool on_device, double track_grad_norm, bool terminate_on_nan = false) {
  struct Rows final : MetricLogger {
    explicit Rows(Logged& out) : logged(out) {}
    void log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) override {
      std::vector<std::pair<std::string, float>> row;
      for (const auto& [name, value] : metrics) row.emplace_back(name, static_cast<float>(value));
      logged.rows.emplace_back(step, epoch, row);
    }
    void flush() override {}
    Logged& logged;
  };
  struct Counting final : Callback {
    explicit Counting(Logged& out) : logged(out) {}
    void on_train_batch_start(Run& run, const Batch&, std::int64_t idx) override {
      if (idx == 2 && run.current_epoch() == 0) reads.emplace();
    }
    void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t idx) override {
      if (idx < 6 || !reads) return;
      logged.reads = reads->names();
      reads.reset();
    }
    Logged& logged;
    std::optional<HostReads> reads;
  };
  Logged logged;
  SoloWorld world;
  Options options = test::short_run("single");
  options.trainer.log_every_n_steps = 1;
  options.trainer.track_grad_norm = track_grad_norm;
  options.trainer.terminate_on_nan = terminate_on_nan;
  test::FakeAccelerator accelerator(test::kFakeDevices);
  test::ToyData data(96, 12, 24);
  test::Regression model;
  const Plan plan = on_device ? test::on_fake_devices(world, options) : Trainer(world, options).plan();
  Trainer trainer(world, options, plan, {}, on_device ? &accelerator : nullptr);
  trainer.add_logger(std::make_unique<Rows>(logged));
  trainer.add_callback(std::make_unique<Counting>(logged));
  trainer.fit(model, data);
  return logged;
}

}  // namespace

TEST_CASE_METHOD(test::TwoFakeDevices,
                 "rows of steps on a device are those on a CPU, and each waits for one event") {
  const double norms = GENERATE(-1.0, 2.0);
  const Logged expected = logged_run(false, norms), found = logged_run(true, norms);
  REQUIRE(found.rows.size() == expected.rows.size());
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    CAPTURE(i);
    const auto& [step, epoch, row] = found.rows[i];
    const auto& [expected_step, expected_epoch, expected_row] = expected.rows[i];
    CHECK(step == expected_step);
    CHECK(epoch == expected_epoch);
    REQUIRE(row.size() == expected_row.size());
    for (std::size_t j = 0; j < row.size(); ++j) {
      CHECK(row[j].first == expected_row[j].first);
      CHECK(row[j].second == Approx(expected_row[j].second).epsilon(1e-4));
    }
  }
  CHECK(found.reads == Names(4, "synchronize event"));
  const Logged checked = logged_run(true, norms, /*terminate_on_nan=*/true);
  const bool same_rows = checked.rows == found.rows;
  CHECK(same_rows);
  CHECK(checked.reads == Names(14, "synchronize event"));  // of the loss, and of the parameters
}

}  // namespace cxtrain
