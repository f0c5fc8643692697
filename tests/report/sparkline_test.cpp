#include "cxtrain/report/sparkline.h"

#include <cmath>

#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {
namespace {

TEST_CASE("a sparkline goes from the lowest block to the highest") {
  Curve curve;
  for (int step = 0; step < 8; ++step) curve.add(step * 100, step);
  CHECK(sparkline(curve, 40) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline(curve, 4) == "▁▃▆█");
  CHECK(sparkline(curve, 0).empty());
  CHECK(sparkline(Curve(), 10).empty());
}

TEST_CASE("a sparkline of values over decades is one of their logarithms") {
  Curve curve;
  for (int step = 0; step < 8; ++step) curve.add(step, std::pow(10, -step));
  CHECK(sparkline(curve, 8) == "█▇▆▅▄▃▂▁");
}

TEST_CASE("a sparkline of equal values is flat, and gaps have the value before them") {
  Curve flat;
  for (int step = 0; step < 3; ++step) flat.add(step, 2);
  CHECK(sparkline(flat, 3) == "▁▁▁");
  Curve gap;
  gap.add(0, 5);
  gap.add(1, std::nan(""));
  gap.add(99, 0);
  CHECK(sparkline(gap, 3) == "██▁");
}

TEST_CASE("the sparklines of a run are those of its losses, within the columns") {
  FaultyFilesystem files;
  files.make_directory("/run");
  CHECK(sparklines_of_run(files, "/run", 80).empty());
  std::string text;
  for (int step = 0; step < 500; ++step)
    text +=
        "{\"step\":" + std::to_string(step) + ",\"train_loss\":" + std::to_string(500 - step) + ",\"x\":1}\n";
  write_atomically(files, "/run/metrics.jsonl", text + "{\"step\":499,\"val_loss\":3}\n");
  const std::vector<std::string> lines = sparklines_of_run(files, "/run", 80);
  REQUIRE(lines.size() == 1);  // one value is no curve
  CHECK_THAT(lines[0], contains("train_loss  █"));
  CHECK_THAT(lines[0], contains("▁  500 to 1, lowest 1"));
  for (const int columns : {10, 40, 60}) {
    for (const std::string& line : sparklines_of_run(files, "/run", columns)) {
      const auto characters =
          std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      CHECK(characters <= columns);
    }
  }
}

}  // namespace
}  // namespace cxtrain::test
