#include <cmath>
#include <fstream>

#include "cxtrain/callbacks/outside_requests.h"
#include "cxtrain/callbacks/run_of_values.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_time.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/error_text.h"
#include "support/faulty_filesystem.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// What makes a training save and end, other than signals: time that runs out, and files in its folder.
namespace cxtrain {
namespace {

struct HandClock : Clock {
  double now() const override { return time; }
  double time = 1000;
};

/// Moves the clock after each batch, and does something at one of them.
struct TicksClock : Callback {
  TicksClock(HandClock& clock, double seconds, std::function<void(Run&)> work = {})
      : clock_(clock), seconds_(seconds), work_(std::move(work)) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    clock_.time += seconds_;
    if (work_) work_(run);
  }
  HandClock& clock_;
  double seconds_;
  std::function<void(Run&)> work_;
};

/// Writes checkpoints that take so many seconds.
struct SavesIn : Callback {
  SavesIn(double seconds, std::vector<std::int64_t>& steps) : seconds_(seconds), steps_(steps) {}
  void on_checkpoint(Run& run, const StateDict&) override {
    run.saved_checkpoints().add(seconds_);
    steps_.push_back(run.global_step());
  }
  double seconds_;
  std::vector<std::int64_t>& steps_;
};

struct Requested {
  RunSummary summary;
  std::vector<std::int64_t> saved;  ///< after which steps
};

/// A fit of 200 steps with these callbacks; `save_seconds`: of those that write checkpoints, if any does.
Requested fit_with(std::vector<std::unique_ptr<Callback>> callbacks,
                   std::optional<double> save_seconds = 1.0) {
  const test::TempDir dir;
  SoloWorld world;
  Options options = test::quiet(dir.path());
  options.trainer.max_epochs = 2;
  options.trainer.enable_checkpointing = false;  // who saves is in the callbacks
  Trainer trainer(world, options);
  Requested requested;
  if (save_seconds) trainer.add_callback(std::make_unique<SavesIn>(*save_seconds, requested.saved));
  for (auto& callback : callbacks) trainer.add_callback(std::move(callback));
  test::Regression model;
  test::ToyData data(400, 4);
  requested.summary = trainer.fit(model, data);
  return requested;
}

template <class... C>
std::vector<std::unique_ptr<Callback>> callbacks_of(std::unique_ptr<C>... callbacks) {
  std::vector<std::unique_ptr<Callback>> all;
  (all.push_back(std::move(callbacks)), ...);
  return all;
}

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a run saves and ends before the job's time does, by a margin that it learns", "[requests]") {
  struct Row {
    double seconds;        ///< of the job; a step takes one
    double save_seconds;   ///< of a checkpoint that is made in the 20th step; 0: none is
    std::int64_t ends_at;  ///< the step
  };
  // Before the end: the step that comes next, and 30 s; after a save 10 s, or three times what it took; but
  // no more than half of the time that there was.
  const Row row = GENERATE(Row{100, 0, 69}, Row{100, 1, 89}, Row{100, 7, 78}, Row{40, 0, 19},
                           Row{100, 60, 49}, Row{10, 0, 4}, Row{0, 0, 1}, Row{-50, 0, 1}, Row{1e9, 0, 200});
  CAPTURE(row.seconds, row.save_seconds);
  HandClock clock;
  const auto save = [&](Run& run) {
    if (run.global_step() == 20 && row.save_seconds > 0) run.request_checkpoint();
  };
  auto callbacks = callbacks_of(std::make_unique<TicksClock>(clock, 1, save),
                                std::make_unique<WallTime>(row.seconds, clock));
  const Requested run = fit_with(std::move(callbacks), row.save_seconds);
  CHECK(run.summary.global_step == row.ends_at);
  const bool ended = row.ends_at < 200;
  CHECK(run.summary.status == (ended ? "stopped" : "done"));
  CHECK(run.summary.exit_code == (ended ? 75 : 0));
  if (ended) CHECK(run.saved.back() == row.ends_at);
}

TEST_CASE("a long step is expected to come again before the job's time ends", "[requests]") {
  HandClock clock;
  const auto slow = [&](Run& run) {
    if (run.global_step() == 5) clock.time += 24;  // a validation
  };
  auto callbacks =
      callbacks_of(std::make_unique<TicksClock>(clock, 1, slow), std::make_unique<WallTime>(100, clock));
  // 45 steps and 24 s have passed: 25 more and 30 would be too much.
  CHECK(fit_with(std::move(callbacks)).summary.global_step == 21);
}

TEST_CASE("where nobody saves, the end of the job's time says so by its status", "[requests]") {
  HandClock clock;
  auto callbacks =
      callbacks_of(std::make_unique<TicksClock>(clock, 1), std::make_unique<WallTime>(60, clock));
  const Requested run = fit_with(std::move(callbacks), std::nullopt);
  CHECK(run.summary.exit_code == 143);
  CHECK_THAT(run.summary.stopped_by, test::contains("31 s") && test::contains("Slurm"));
}

TEST_CASE("a job without an end has no wall time", "[requests]") {
  HandClock clock;
  auto callbacks =
      callbacks_of(std::make_unique<TicksClock>(clock, 1e6), std::make_unique<WallTime>(std::nullopt, clock));
  CHECK(fit_with(std::move(callbacks)).summary.global_step == 200);
}

TEST_CASE("the time that Slurm prints is read", "[requests]") {
  CHECK(seconds_of_slurm_time("0:05") == 5);
  CHECK(seconds_of_slurm_time("59:59") == 3599);
  CHECK(seconds_of_slurm_time("3:59:59") == 4 * 3600 - 1);
  CHECK(seconds_of_slurm_time("1-02:03:04") == 86'400 + 2 * 3600 + 3 * 60 + 4);
  for (const char* text : {"", "UNLIMITED", "NOT_SET", "INVALID", "5", ":", "1-", "1:2:3:4", "-1:00", "1:x"})
    CHECK(!seconds_of_slurm_time(text));
}

TEST_CASE("the end of a Slurm job is read once, and only where it is a number", "[requests]") {
  const auto now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto with = [](const std::string& text) {
    const test::EnvironmentVariable end("SLURM_JOB_END_TIME", text);
    return seconds_to_job_end();
  };
  CHECK(!seconds_to_job_end());
  CHECK(std::abs(*with(std::to_string(static_cast<std::int64_t>(now) + 100)) - 100) < 3);
  CHECK(*with("1") < -1e9);
  for (const char* text : {"", "soon", "12x", "1e9", "99999999999999999999"}) CHECK(!with(text));
}

TEST_CASE("save-now saves and goes on, stop-now saves and stops; both are gone afterwards", "[requests]") {
  HandClock clock;
  const bool stops = GENERATE(false, true);
  std::vector<bool> there;
  const auto ask = [&](Run& run) {
    const std::string path = run.log_dir() + (stops ? "/stop-now" : "/save-now");
    if (run.global_step() == 50) std::ofstream(path) << "please";
    if (run.global_step() >= 50) there.push_back(std::filesystem::exists(path));
  };
  auto callbacks = callbacks_of(std::make_unique<FileRequests>(real_filesystem(), clock),
                                std::make_unique<TicksClock>(clock, 0.9, ask));
  const Requested run = fit_with(std::move(callbacks));
  // A look every two seconds, which are three steps.
  REQUIRE(run.saved.size() == 1);
  CHECK(run.saved[0] > 50);
  CHECK(run.saved[0] <= 53);
  CHECK(run.summary.global_step == (stops ? run.saved[0] : 200));
  CHECK(run.summary.status == "done");
  CHECK(run.summary.exit_code == 0);
  CHECK(std::count(there.begin(), there.end(), true) <= 3);
  CHECK(there.back() == false);
}

TEST_CASE("a folder that cannot be looked at costs the requests, and one warning", "[requests]") {
  HandClock clock;
  test::FaultyFilesystem files;
  files.fail({.call = 0, .error = EIO, .lasting = true});
  auto callbacks =
      callbacks_of(std::make_unique<FileRequests>(files, clock), std::make_unique<TicksClock>(clock, 3));
  const Requested run = fit_with(std::move(callbacks));
  CHECK(run.summary.global_step == 200);
  CHECK(run.saved.empty());
  CHECK(files.calls() == 1);
}

TEST_CASE("a request that cannot be deleted costs that request alone", "[requests]") {
  HandClock clock;
  const auto ask = [](Run& run) {
    if (run.global_step() != 50) return;
    std::filesystem::create_directories(run.log_dir() + "/save-now/full");
    std::ofstream(run.log_dir() + "/stop-now") << "please";
  };
  auto callbacks = callbacks_of(std::make_unique<FileRequests>(real_filesystem(), clock),
                                std::make_unique<TicksClock>(clock, 3, ask));
  const Requested run = fit_with(std::move(callbacks));
  CHECK(run.summary.global_step > 50);
  CHECK(run.summary.global_step < 60);
}

TEST_CASE("max_time saves once and stops", "[requests]") {
  auto callbacks = callbacks_of(std::make_unique<Timer>(Timer::Args{.seconds = 0}));
  const Requested run = fit_with(std::move(callbacks));
  CHECK(run.summary.exit_code == 0);
  CHECK(run.summary.global_step == 1);
  CHECK(run.saved == Steps{1});
}

TEST_CASE("the time of a resumed training counts") {
  Timer timer({.seconds = 1000});
  RunOfValues values;
  timer.setup(values.run, Stage::fit);
  const auto asks_after = [&](double seconds) {
    StateDict saved;
    saved.set("elapsed_seconds", seconds);
    timer.on_load_checkpoint(saved);
    timer.on_train_start(values.run);
    timer.on_train_batch_end(values.run, StepOutput(), Batch(), 0);
    return values.requests.stop && values.requests.save;
  };
  CHECK_FALSE(asks_after(1));
  CHECK(asks_after(1000));
}

}  // namespace cxtrain
