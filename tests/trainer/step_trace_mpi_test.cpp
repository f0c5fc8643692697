#include <filesystem>
#include <map>
#include <memory>

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/trainer/trace_file.h"
#include "support/catch.h"
#include "support/gzip.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// Ends a fit after a step: by a stop, or by an error.
class EndAfter final : public Callback {
 public:
  EndAfter(std::int64_t step, bool fails) : step_(step), fails_(fails) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (run.global_step() != step_) return;
    if (fails_) throw AgreedError(ExitCode::failure, MessageCode::none, "planned");
    run.request_stop("planned");
  }

 private:
  std::int64_t step_;
  bool fails_;
};

std::string traced_fit(const test::TempDir& dir, std::int64_t steps,
                       std::unique_ptr<Callback> callback = {}) {
  Options options = test::quiet(dir.path());
  options.trainer.profiler = Profiler::trace;
  options.trainer.max_epochs = -1;
  options.trainer.max_steps = steps;
  options.trainer.enable_checkpointing = false;
  Regression model;
  ToyData data(64 * test_world().size(), 4);
  Trainer trainer(test_world(), options);
  if (callback) trainer.add_callback(std::move(callback));
  trainer.fit(model, data);
  return trainer.log_dir();
}

nlohmann::json trace_in(const std::string& folder) {
  return nlohmann::json::parse(test::gunzip(folder + "/" + kTraceFile));
}

TEST_CASE("a trace has the phases and the operations of five steps on each rank") {
  const test::TempDir dir;
  const std::string folder = traced_fit(dir, 20);
  if (!test_world().is_root()) return;
  CHECK(std::filesystem::exists(folder + "/profile.json"));
  const nlohmann::json trace = trace_in(folder);
  CHECK(trace["otherData"]["clock_error_us"] == 0);  // of one node
  std::map<int, std::map<std::string, int>> phases, operations;
  double first = 1e18, last = 0;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++(event["cat"] == "phase" ? phases : operations)[event["pid"]][event["name"]];
    first = std::min(first, event["ts"].get<double>());
    last = std::max(last, event["ts"].get<double>());
  }
  CHECK(first > 0);  // begins of all ranks count from the start of the training on rank 0
  CHECK(last < 60e6);
  REQUIRE(phases.size() == static_cast<std::size_t>(test_world().size()));
  for (auto& [rank, names] : phases) {
    CAPTURE(rank);
    CHECK(names["forward"] >= 5);
    CHECK(names["backward"] >= 5);
    CHECK(names["optimizer"] >= 5);
    CHECK(names["data"] == 4);  // the batch of the first of these steps is there already
    CHECK(operations[rank]["aten::tanh"] == 5);
  }
}

TEST_CASE("an operation lies within the phase that it belongs to") {
  const test::TempDir dir;
  const std::string folder = traced_fit(dir, 12);
  if (!test_world().is_root()) return;
  const nlohmann::json trace = trace_in(folder);
  int within = 0;
  for (const nlohmann::json& operation : trace["traceEvents"]) {
    if (operation["name"] != "aten::tanh") continue;
    for (const nlohmann::json& phase : trace["traceEvents"]) {
      if (phase["name"] != "forward" || phase["pid"] != operation["pid"] || phase["tid"] != operation["tid"])
        continue;
      const double begin = phase["ts"], end = begin + phase["dur"].get<double>();
      const double from = operation["ts"], to = from + operation["dur"].get<double>();
      within += begin <= from && to <= end ? 1 : 0;
    }
  }
  CHECK(within == 5 * test_world().size());
}

TEST_CASE("a fit of three steps has a trace of three") {
  const test::TempDir dir;
  const std::string folder = traced_fit(dir, 3);
  if (!test_world().is_root()) return;
  int operations = 0;
  const nlohmann::json trace = trace_in(folder);
  for (const nlohmann::json& event : trace["traceEvents"])
    operations += event["name"] == "aten::tanh" ? 1 : 0;
  CHECK(operations == 3 * test_world().size());
}

TEST_CASE("a fit that stops while it is traced has a trace, and one that fails ends it") {
  const test::TempDir dir;
  const std::string folder = traced_fit(dir, 100, std::make_unique<EndAfter>(12, /*fails=*/false));
  if (test_world().is_root()) CHECK(trace_in(folder)["traceEvents"].size() > 100);
  CHECK_THROWS_AS(traced_fit(dir, 100, std::make_unique<EndAfter>(12, /*fails=*/true)), AgreedError);
  const std::string next = traced_fit(dir, 5);  // no profiler is left
  if (test_world().is_root()) CHECK(std::filesystem::exists(next + "/" + kTraceFile));
}

TEST_CASE("a fit that ends before the traced steps has no trace") {
  const test::TempDir dir;
  const std::string folder = traced_fit(dir, 100, std::make_unique<EndAfter>(2, /*fails=*/false));
  CHECK_FALSE(std::filesystem::exists(folder + "/" + kTraceFile));
}

}  // namespace
}  // namespace cxtrain
