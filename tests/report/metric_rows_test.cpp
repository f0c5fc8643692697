#include "cxtrain/report/metric_rows.h"

#include <cmath>

#include "cxtrain/report/file_loggers.h"
#include "cxtrain/report/read_run.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {
namespace {

struct RowsOfFile {
  MetricRowsRead read;
  std::vector<MetricRow> rows;
};

RowsOfFile rows_of(Filesystem& files, std::uint64_t most_bytes = std::uint64_t{1} << 40) {
  RowsOfFile result;
  result.read =
      read_metric_rows(files, "/run", most_bytes, [&](const MetricRow& row) { result.rows.push_back(row); });
  return result;
}

TEST_CASE("rows are read as the loggers wrote them, from either file") {
  for (const bool csv : {false, true}) {
    FaultyFilesystem files;
    files.make_directory("/run");
    std::unique_ptr<MetricLogger> logger;
    if (csv)
      logger = std::make_unique<CsvLogger>(files, "/run");
    else
      logger = std::make_unique<JsonlLogger>(files, "/run");
    const std::vector<MetricLogger::Metric> first{{"train_loss", 0.5}, {"a,\"b\"", 1e-7}};
    const std::vector<MetricLogger::Metric> second{{"val_loss", std::nan("")}};
    logger->log(9, 0, first);
    logger->log(19, 1, second);
    logger->flush();
    const RowsOfFile found = rows_of(files);
    CHECK(found.read.file == (csv ? "metrics.csv" : "metrics.jsonl"));
    CHECK(found.read.damaged == 0);
    CHECK_FALSE(found.read.cut_short);
    REQUIRE(found.rows.size() == 2);
    CHECK(found.rows[0].step == 9);
    CHECK(found.rows[1].epoch == 1);
    std::map<std::string, double> values(found.rows[0].metrics.begin(), found.rows[0].metrics.end());
    CHECK(values == std::map<std::string, double>(first.begin(), first.end()));
    REQUIRE(found.rows[1].metrics.size() == 1);
    CHECK(std::isnan(found.rows[1].metrics[0].second));
  }
}

TEST_CASE("a metric that a model calls epoch costs no row") {
  FaultyFilesystem files;
  files.make_directory("/run");
  const std::vector<MetricLogger::Metric> row{{"train_loss", 0.5}, {"epoch", 3.0}};
  JsonlLogger(files, "/run").log(9, 0, row);
  const RowsOfFile found = rows_of(files);
  CHECK(found.read.damaged == 0);
  REQUIRE(found.rows.size() == 1);
  CHECK(found.rows[0].step == 9);
  REQUIRE(found.rows[0].metrics.size() == 1);
  CHECK(found.rows[0].metrics[0].second == 0.5);
}

TEST_CASE("lines that are no rows are counted, and the last one may be cut short") {
  FaultyFilesystem files;
  files.make_directory("/run");
  write_atomically(files, "/run/metrics.jsonl",
                   "{\"step\":1,\"epoch\":0,\"a\":1}\n"
                   "{\"step\":2,\"epoch\":0,\"a\":\n"   // damaged
                   "{\"epoch\":0,\"a\":1}\n"            // no step
                   "{\"step\":-1,\"a\":1}\n"            // a step below 0
                   "{\"step\":3,\"a\":{\"step\":4}}\n"  // nested
                   "{\"step\":3,\"a\":\"text\"}\n"      // text
                   "{\"step\":1.5,\"a\":1}\n"           // half a step
                   "{\"step\":99999999999999999999,\"a\":1}\n"
                   "[1]\n\n\xff\xfe\n" +
                       std::string(100'000, '[') + "\n" + std::string(LineReader::kLongestLine + 1, 'x') +
                       "\n{\"step\":5,\"a\":1e400}\n{\"step\":6,\"a\":2}\n{\"step\":7,\"a\":3");
  const RowsOfFile found = rows_of(files);
  REQUIRE(found.rows.size() == 2);
  CHECK(found.rows[0].step == 1);
  CHECK(found.rows[1].step == 6);
  CHECK(found.read.damaged == 13);
  CHECK(found.read.cut_short);
}

TEST_CASE("of a large file of metrics both ends and parts in between are read") {
  FaultyFilesystem files;
  files.make_directory("/run");
  std::string text;
  constexpr std::int64_t kRows = 20'000;
  for (std::int64_t step = 0; step < kRows; ++step)
    text += "{\"step\":" + std::to_string(step) + ",\"a\":1}\n";
  write_atomically(files, "/run/metrics.jsonl", text);
  const RowsOfFile all = rows_of(files);
  CHECK(all.rows.size() == kRows);
  CHECK_FALSE(all.read.in_parts);
  const RowsOfFile parts = rows_of(files, text.size() / 10);
  CHECK(parts.read.in_parts);
  CHECK(parts.read.damaged == 0);
  CHECK(parts.rows.size() < kRows / 8);
  CHECK(parts.rows.size() > kRows / 20);
  CHECK(parts.rows.front().step == 0);
  CHECK(parts.rows.back().step == kRows - 1);
  for (std::size_t i = 1; i < parts.rows.size(); ++i) CHECK(parts.rows[i - 1].step < parts.rows[i].step);
}

TEST_CASE("a link in the place of a file of metrics is not followed") {
  FaultyFilesystem files;
  files.make_directory("/run");
  write_atomically(files, "/run/other", "{\"step\":1,\"a\":1}\n");
  files.link("other", "/run/metrics.jsonl");
  CHECK(rows_of(files).read.file.empty());
}

TEST_CASE("lines are read over the borders of what is read at once") {
  FaultyFilesystem files;
  std::string text;
  std::size_t lines = 0;
  for (std::size_t size = 0; text.size() < 3'000'000; size = (size * 7 + 13) % 5000, ++lines)
    text += std::string(size, static_cast<char>('a' + lines % 26)) + "\n";
  write_atomically(files, "/lines", text);
  const auto file = files.open("/lines");
  LineReader reader(*file, 0, text.size());
  std::string joined;
  for (std::string_view line; reader.next(line);) joined += std::string(line) + "\n";
  CHECK(joined == text);
  CHECK_FALSE(reader.ends_in_line());
}

}  // namespace
}  // namespace cxtrain::test
