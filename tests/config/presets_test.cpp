#include "cxtrain/config/presets.h"
#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"

using namespace cxtrain;
using namespace cxtrain::testing;

TEST_CASE("benchmark and deterministic, each way, as in Lightning 2.x", "[config]") {
  struct Row {
    std::optional<bool> benchmark;
    Deterministic deterministic;
    bool got_benchmark, got_deterministic, warn_only, warning;
  };
  const Deterministic warn = Deterministic::warn();
  const Row row = GENERATE_COPY(
      Row{std::nullopt, false, false, false, false, false},
      Row{std::nullopt, true, false, true, false, false}, Row{std::nullopt, warn, false, true, true, false},
      Row{true, false, true, false, false, false}, Row{true, true, true, true, false, true},
      Row{true, warn, true, true, true, true}, Row{false, false, false, false, false, false},
      Row{false, true, false, true, false, false}, Row{false, warn, false, true, true, false});
  Options options;
  options.trainer.benchmark = row.benchmark;
  options.trainer.deterministic = row.deterministic;
  const Plan plan = resolve(options, machine(1), {});
  CHECK(plan.benchmark == row.got_benchmark);
  CHECK(plan.deterministic == row.got_deterministic);
  CHECK(plan.deterministic_warn_only == row.warn_only);
  CHECK(plan.warnings.empty() != row.warning);
  if (row.warning) CHECK_THAT(all(plan.warnings), test::contains("deterministic=true"));
}

TEST_CASE("float32_matmul_precision reaches the plan, and none leaves LibTorch's", "[config]") {
  Options options;
  CHECK_FALSE(resolve(options, machine(1), {}).float32_matmul_precision);
  options.trainer.float32_matmul_precision = MatmulPrecision::medium;
  CHECK(resolve(options, machine(1), {}).float32_matmul_precision == MatmulPrecision::medium);
}

TEST_CASE("channels_last reaches the plan, and is told only where it is on", "[config]") {
  Options options;
  CHECK(to_json(resolve(options, machine(1), {})).find("channels_last") == std::string::npos);
  CHECK(to_text(resolve(options, machine(1), {})).find("channels_last") == std::string::npos);
  options.trainer.channels_last = true;
  const Plan plan = resolve(options, machine(1), {});
  CHECK(plan.channels_last);
  CHECK(to_json(plan).find("\"channels_last\":true") != std::string::npos);
  CHECK(to_text(plan).find("channels_last on") != std::string::npos);
}

TEST_CASE("log_gpu_memory reaches the plan; on the CPU it logs nothing and says so", "[config]") {
  Options options;
  options.trainer.log_gpu_memory = GpuMemoryLog::all;
  CHECK(resolve(options, machine(1), {}).log_gpu_memory == GpuMemoryLog::all);
  CHECK(resolve(options, machine(1), {}).warnings.empty());
  CHECK_THAT(all(resolve(options, machine(0), {}).warnings),
             test::contains("log_gpu_memory:") && test::contains("log_gpu_memory=all"));
  options.trainer.logger = false;
  CHECK_THAT(all(resolve(options, machine(1), {}).warnings), test::contains("log_gpu_memory=all"));
}

TEST_CASE("the profiler reaches the plan; a trace needs a folder", "[config]") {
  Options options;
  options.trainer.profiler = Profiler::trace;
  CHECK(resolve(options, machine(0), {}).profiler == Profiler::trace);
  CHECK(resolve(options, machine(0), {}).ok());
  const auto refused = [](const Options& asked) { return all(resolve(asked, machine(0), {}).errors); };
  Options without = options;
  without.trainer.logger = false;
  CHECK_THAT(refused(without), test::contains("profiler:") && test::contains("logger=false"));
  Options trial = options;
  trial.trainer.fast_dev_run = 1;
  CHECK_THAT(refused(trial), test::contains("profiler:") && test::contains("fast_dev_run"));
  without.trainer.profiler = trial.trainer.profiler = Profiler::simple;  // prints its table
  CHECK(resolve(without, machine(0), {}).ok());
  CHECK(resolve(trial, machine(0), {}).ok());
  without.trainer.barebones = true;
  CHECK_THAT(refused(without), test::contains("profiler:") && test::contains("barebones=true"));
}

TEST_CASE("fast_dev_run and barebones say what they mean, and stay readable", "[config]") {
  Options asked;
  asked.trainer.fast_dev_run = 3;
  asked.trainer.max_epochs = 50;
  asked.trainer.overfit_batches = {0.5};
  asked.trainer.auto_lr_find = true;
  asked.callbacks = {{"early_stopping", {{"monitor", "loss"}}}, {"lr_monitor", {}}};
  const Options meant = expand_presets(asked);
  CHECK(meant.trainer.fast_dev_run == 3);
  CHECK(meant.trainer.max_epochs == 1);
  CHECK(meant.trainer.max_steps == 3);
  CHECK(meant.trainer.limit_test_batches == BatchLimit{std::int64_t{3}});
  CHECK(meant.trainer.overfit_batches.is_zero());
  CHECK_FALSE(meant.trainer.auto_lr_find);
  CHECK_FALSE(meant.trainer.logger);
  CHECK((meant.callbacks == std::vector<NamedOptions>{{"lr_monitor", {}}}));
  CHECK((expand_presets(meant) == meant));

  Options bare;
  bare.trainer.barebones = true;
  CHECK(loggers_asked_for(bare).empty());
  CHECK(callbacks_asked_for(bare).empty());
  CHECK(expand_presets(bare).trainer.log_every_n_steps == 0);
  Options quiet;
  quiet.quiet = true;
  CHECK((callbacks_asked_for(quiet) == std::vector<NamedOptions>{{"model_checkpoint", {}}}));
  CHECK((expand_presets({}) == Options{}));
}

TEST_CASE("options of the trainer stand for callbacks and loggers", "[config]") {
  Options options;
  options.trainer.max_time = std::chrono::minutes(2);
  options.trainer.log_gpu_memory = GpuMemoryLog::min_max;
  options.callbacks = {{"mine", {}}};
  CHECK((callbacks_asked_for(options) == std::vector<NamedOptions>{{"timer", {{"seconds", "120"}}},
                                                                   {"mine", {}},
                                                                   {"gpu_memory", {{"log", "min_max"}}},
                                                                   {"progress_bar", {}},
                                                                   {"model_checkpoint", {}}}));
  options.loggers = {{"jsonl", {}}, {"mine", {}}};
  CHECK((loggers_asked_for(options) ==
         std::vector<NamedOptions>{{"jsonl", {}}, {"mine", {}}, {"csv", {}}, {"tensorboard", {}}}));
  options.trainer.logger = false;
  CHECK((loggers_asked_for(options) == options.loggers));
}
