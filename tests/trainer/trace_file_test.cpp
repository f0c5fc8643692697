#include "cxtrain/trainer/trace_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cxtrain/trainer/step_trace.h"
#include "support/catch.h"
#include "support/gzip.h"
#include "support/temp_dir.h"

namespace cxtrain {
namespace {

TracePart write_part(const test::TempDir& dir, int rank, std::int64_t events) {
  TracePartFile file(real_filesystem(), dir.path(), rank);
  for (std::int64_t i = 0; i < events; ++i)
    file.add({"op \"" + std::to_string(i) + "\"\n", "operation", 1.5 * static_cast<double>(i), 0.25, 3});
  file.name_track(3, "training");
  file.close();
  return {.rank = rank, .host = "n" + std::to_string(rank), .events = events, .clock_error = 1e-6 * rank};
}

TEST_CASE("the parts of all ranks become one trace", "[trainer]") {
  const test::TempDir dir;
  constexpr std::int64_t kMany = 20'000;  // of more than a chunk
  const std::vector<TracePart> parts{write_part(dir, 0, kMany), write_part(dir, 2, 3), {.rank = 3}};
  merge_trace(real_filesystem(), dir.path(), parts);
  const auto trace = nlohmann::json::parse(test::gunzip(dir.path() + "/" + kTraceFile));
  CHECK(trace["otherData"]["clock_error_us"] == 2.0);
  std::map<int, std::int64_t> operations;
  std::map<int, std::string> processes, threads;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    const int rank = event["pid"];
    if (event["ph"] == "X") ++operations[rank];
    if (event["name"] == "process_name") processes[rank] = event["args"]["name"];
    if (event["name"] == "thread_name") threads[rank] = event["args"]["name"];
  }
  CHECK(operations == std::map<int, std::int64_t>{{0, kMany}, {2, 3}});
  CHECK(processes == std::map<int, std::string>{{0, "rank 0 on n0"}, {2, "rank 2 on n2"}});
  CHECK(threads == std::map<int, std::string>{{0, "training"}, {2, "training"}});
  const nlohmann::json& second = trace["traceEvents"][2];
  CHECK(second["name"] == "op \"1\"\n");
  CHECK(second["cat"] == "operation");
  CHECK(second["tid"] == 3);
  CHECK(second["ts"] == 1.5);
  CHECK(second["dur"] == 0.25);
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    left.push_back(entry.path().filename());
  CHECK(left == std::vector<std::string>{kTraceFile});
}

TEST_CASE("a part that rank 0 does not see is an error", "[trainer]") {
  const test::TempDir dir;
  const std::vector<TracePart> parts{{.rank = 1, .events = 5}};
  CHECK_THROWS_AS(merge_trace(real_filesystem(), dir.path(), parts), FileError);
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/" + kTraceFile));
}

TEST_CASE("a trace has steps 10 to 14 of a fit, or the last ones", "[trainer]") {
  struct Row {
    std::int64_t begin, end, first, behind;
  };
  const Row row = GENERATE(values<Row>({{0, 1000, 10, 15},
                                        {0, 0, 10, 15},  // of unknown length
                                        {0, 15, 10, 15},
                                        {0, 14, 9, 14},
                                        {0, 3, 0, 3},
                                        {100, 1000, 110, 115},
                                        {100, 112, 107, 112},
                                        {100, 102, 100, 102}}));
  const TraceWindow window = trace_window(row.begin, row.end);
  CHECK(window.first == row.first);
  CHECK(window.end == row.behind);
}

}  // namespace
}  // namespace cxtrain
