#include <csignal>
#include <map>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/gzip.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// Where the time of a fit goes, as a user asks for it.
namespace cxtrain::test {
namespace {

nlohmann::json profile_in(const TempDir& dir) {
  return nlohmann::json::parse(std::ifstream(dir.path() + "/cxtrain_logs/version_0/profile.json"));
}

/// Each rank's phases add up to its time.
void check_sums(const nlohmann::json& profile) {
  for (const nlohmann::json& rank : profile["ranks"]) {
    CAPTURE(rank.dump());
    double sum = 0;
    for (const nlohmann::json& phase : rank["phases"]) sum += phase["seconds"].get<double>();
    CHECK(sum == Approx(rank["seconds"].get<double>()).epsilon(0.01));
  }
}

TEST_CASE("the simple profiler prints a table and writes profile.json") {
  const int ranks = GENERATE(1, 2);
  const TempDir dir;
  const ProgramResult run =
      run_ranks(ranks, "fit --accelerator cpu --max_epochs 2 --profiler simple" + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("where the time went: ") && contains("forward") && !contains("is missing"));
  CHECK((run.output.find("slowest rank") != std::string::npos) == (ranks > 1));
  const nlohmann::json profile = profile_in(dir);
  CHECK(profile["ranks"].size() == static_cast<std::size_t>(ranks));
  CHECK(profile["steps"] == run_json(dir)["global_step"]);
  check_sums(profile);
}

TEST_CASE("the trace of all ranks opens in Perfetto") {
  const TempDir dir;
  const ProgramResult run = run_ranks(2, "fit --accelerator cpu --max_epochs 2 --profiler pytorch" + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  const std::string file = dir.path() + "/cxtrain_logs/version_0/trace.json.gz";
  CHECK_THAT(run.output, contains("where the time went: ") && contains(file));
  std::map<std::string, int> processes;
  std::map<int, int> events;
  const auto trace = nlohmann::json::parse(gunzip(file));
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") ++processes[event["args"]["name"]];
    if (event["ph"] != "X") continue;
    ++events[event["pid"]];
    CHECK(event["dur"].get<double>() >= 0);
  }
  CHECK(processes.size() == 2);
  CHECK(processes.begin()->first.starts_with("rank 0 on "));
  CHECK(events[0] > 100);
  CHECK(events[1] > 100);
}

TEST_CASE("a run without a folder has its table") {
  const TempDir dir;
  const ProgramResult run = run_program("fit --accelerator cpu --fast_dev_run 3 --profiler simple" + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("where the time went: 3 steps"));
}

TEST_CASE("a run that a signal ends has its table and profile.json") {
  const std::string launch = GENERATE(as<std::string>{}, "", " --devices 2");
  const TempDir dir;
  RunningProgram program(kProgram +
                         " --accelerator cpu --max_epochs -1 --log_every_n_steps 1 --profiler simple" +
                         launch + in(dir));
  REQUIRE(becomes_true([&] { return has_rows(dir); }));
  program.send(SIGTERM);
  const ProgramResult run = program.wait();
  CAPTURE(run.output);
  CHECK(run.status == 75);
  CHECK_THAT(run.output, contains("where the time went: "));
  check_sums(profile_in(dir));
}

TEST_CASE("a profiler that does not exist is refused before the run") {
  const ProgramResult run = run_program("plan --profiler advanced");
  CAPTURE(run.output);
  CHECK(run.status == 2);
  CHECK_THAT(run.output, contains(code(MessageCode::invalid_value)) && contains("--profiler:"));
}

}  // namespace
}  // namespace cxtrain::test
