#include "cxtrain/report/progress_report.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "support/catch.h"

namespace cxtrain::test {
namespace {

ProgressReport example() {
  return {.time = 1700000000.5,
          .run = "/runs/a \"b\"\\c",
          .host = "n1",
          .ranks = 8,
          .nodes = 2,
          .epoch = 3,
          .max_epochs = 10,
          .batch = 40,
          .batches = 100,
          .step = 340,
          .max_steps = -1,
          .steps_per_second = 12.5,
          .samples_per_second = 800,
          .seconds_left = 52.8,
          .checkpoints = 3,
          .metrics = {{"train_loss", 0.25}, {"odd", std::numeric_limits<double>::quiet_NaN()}}};
}

TEST_CASE("a report of progress is read back as it was written") {
  const auto read = parse_progress(to_json(example()));
  REQUIRE(read);
  CHECK(read->time == 1700000000.5);
  CHECK(read->run == "/runs/a \"b\"\\c");
  CHECK(read->host == "n1");
  CHECK(read->ranks == 8);
  CHECK(read->nodes == 2);
  CHECK(read->epoch == 3);
  CHECK(read->max_epochs == 10);
  CHECK(read->batch == 40);
  CHECK(read->batches == 100);
  CHECK(read->step == 340);
  CHECK(read->max_steps == -1);
  CHECK(read->steps_per_second == 12.5);
  CHECK(read->samples_per_second == 800);
  CHECK(read->seconds_left == 52.8);
  CHECK(read->checkpoints == 3);
  CHECK(read->training);
  REQUIRE(read->metrics.size() == 2);
  CHECK(read->metrics[0] == std::pair<std::string, double>{"train_loss", 0.25});
  CHECK(std::isnan(read->metrics[1].second));
}

TEST_CASE("what is no report of progress, or a part of one, is none") {
  const std::string whole = to_json(example());
  for (std::size_t size = 0; size < whole.size(); size += 7)
    CHECK_FALSE(parse_progress(whole.substr(0, size)));
  CHECK_FALSE(parse_progress("[1]"));
  CHECK_FALSE(parse_progress(R"({"time":"noon"})"));
  CHECK_FALSE(parse_progress(R"({"metrics":{"a":"b"}})"));
  REQUIRE(parse_progress("{}"));
  CHECK(parse_progress("{}")->run.empty());
}

TEST_CASE("Prometheus gets a gauge with help and type for each number, and labels that it can read") {
  const std::string text = to_prometheus(example());
  const std::string run = R"(run="/runs/a \"b\"\\c")";
  CHECK_THAT(text, contains("# TYPE cxtrain_global_step gauge\ncxtrain_global_step{" + run + "} 340.0\n"));
  CHECK_THAT(text, contains("cxtrain_training{" + run + "} 1.0\n"));
  CHECK_THAT(text, contains("cxtrain_metric{" + run + ",name=\"train_loss\"} 0.25\n"));
  CHECK_THAT(text, contains("cxtrain_metric{" + run + ",name=\"odd\"} NaN\n"));
  // Each name is told once, before its values.
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) last = line.substr(7, line.find(' ', 7) - 7);
    if (!line.starts_with('#')) CHECK(line.starts_with(last + "{"));
  }
}

}  // namespace
}  // namespace cxtrain::test
