#include "support/catch.h"

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
  if (row.warning) CHECK_THAT(all(plan.warnings), test::contains("in spite of deterministic=true"));
}

TEST_CASE("float32_matmul_precision reaches the plan, and none leaves LibTorch's", "[config]") {
  Options options;
  CHECK(resolve(options, machine(1), {}).float32_matmul_precision.empty());
  for (const char* name : {"highest", "high", "medium"}) {
    options.trainer.float32_matmul_precision = name;
    CHECK(resolve(options, machine(1), {}).float32_matmul_precision == name);
  }
}

TEST_CASE("log_gpu_memory reaches the plan; on the CPU it logs nothing and says so", "[config]") {
  Options options;
  options.trainer.log_gpu_memory = "all";
  CHECK(resolve(options, machine(1), {}).log_gpu_memory == "all");
  CHECK(resolve(options, machine(1), {}).warnings.empty());
  CHECK_THAT(all(resolve(options, machine(0), {}).warnings),
             test::contains("log_gpu_memory: log_gpu_memory=all logs nothing: the run uses no GPU"));
  options.trainer.logger = false;
  CHECK_THAT(all(resolve(options, machine(1), {}).warnings),
             test::contains("log_gpu_memory=all logs nothing: the run has no logger"));
}
