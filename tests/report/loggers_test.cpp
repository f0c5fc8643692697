#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include "support/catch.h"

#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/report/file_loggers.h"
#include "cxtrain/report/metric_loggers.h"
#include "cxtrain/report/png.h"
#include "cxtrain/report/tensorboard/event_writer.h"
#include "cxtrain/state/state_dict.h"
#include "support/event_file.h"
#include "support/every_fault.h"
#include "support/temp_dir.h"

namespace {

using namespace cxtrain;
using Row = std::vector<MetricLogger::Metric>;
using test::slurp;
using test::TempDir;

}  // namespace

TEST_CASE("metrics.csv has Lightning's layout", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  CsvLogger logger(files, dir.path());
  logger.log(9, 0, Row{{"train_loss", 0.5}});
  logger.log(19, 0, Row{{"train_loss", 0.25}});
  logger.flush();
  CHECK(slurp(dir.file("metrics.csv")) == "epoch,step,train_loss\n0,9,0.5\n0,19,0.25\n");
}

TEST_CASE("a new key rewrites metrics.csv with a new header", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  CsvLogger logger(files, dir.path());
  logger.log(1, 0, Row{{"train_loss", 0.1}});
  logger.log(2, 1, Row{{"val_acc", 1}, {"a,b", 2}, {"lr-\"x\"", 1e-5}});
  logger.log(3, 1, Row{{"train_loss", 3}});
  logger.flush();
  CHECK(slurp(dir.file("metrics.csv")) ==
        "\"a,b\",epoch,\"lr-\"\"x\"\"\",step,train_loss,val_acc\n"
        ",0,,1,0.1,\n"
        "2,1,1e-05,2,,1\n"
        ",1,,3,3,\n");
}

TEST_CASE("an existing metrics.csv is continued", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  CsvLogger(files, dir.path()).log(1, 0, Row{{"loss", 1}});
  {
    CsvLogger logger(files, dir.path());
    logger.log(2, 0, Row{{"loss", 2}});
    logger.log(3, 0, Row{{"acc", 3}});
  }
  CHECK(slurp(dir.file("metrics.csv")) == "acc,epoch,loss,step\n,0,1,1\n,0,2,2\n3,0,,3\n");
}

TEST_CASE("a metrics.csv that is too large to be read makes way for a new one", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  const std::string table = dir.write("metrics.csv", "epoch,loss,step\n");
  std::filesystem::resize_file(table, (std::uint64_t{1} << 30) + 1);  // sparse
  {
    CsvLogger logger(files, dir.path());
    logger.log(2, 0, Row{{"loss", 2}});
  }
  CHECK(slurp(table) == "epoch,loss,step\n0,2,2\n");
  CHECK(std::filesystem::file_size(table + ".large") > (std::uint64_t{1} << 30));
  std::filesystem::resize_file(table, (std::uint64_t{1} << 30) + 2);
  CsvLogger(files, dir.path()).log(3, 0, Row{{"loss", 3}});
  CHECK(std::filesystem::file_size(table + ".large") == (std::uint64_t{1} << 30) + 1);
  CHECK(std::filesystem::file_size(table + ".large.1") == (std::uint64_t{1} << 30) + 2);
}

TEST_CASE("metrics.csv stays a table whichever call fails, and goes on afterwards", "[loggers]") {
  const auto commas = [](const std::string& line) { return std::count(line.begin(), line.end(), ','); };
  test::fail_at_every_call(
      [](test::FaultyFilesystem& files) {
        CsvLogger(files, "/").log(1, 0, Row{{"loss", 1}});
      },
      [](test::FaultyFilesystem& files) {
        try {
          CsvLogger logger(files, "/");
          for (const auto& row : {Row{{"loss", 2}}, Row{{"acc", 3}}, Row{{"acc", 4}, {"zeta", 5}}}) {
            try {
              logger.log(2, 0, row);
              logger.flush();
            } catch (const FileError&) {
            }
          }
          files.heal();
          logger.log(3, 0, Row{{"loss", 6}, {"acc", 7}});
          logger.flush();
        } catch (const FileError&) {
          files.heal();
          CsvLogger(files, "/").log(3, 0, Row{{"loss", 6}, {"acc", 7}});
        }
      },
      [&](test::FaultyFilesystem& files, bool) {
        std::istringstream text(read_whole_file(files, "/metrics.csv"));
        std::string header, line;
        std::getline(text, header);
        CHECK(header.starts_with("acc,epoch,loss,step"));
        std::vector<std::string> rows;
        while (std::getline(text, line)) rows.push_back(line);
        for (const std::string& row : rows) CHECK(commas(row) == commas(header));
        CHECK(rows.size() >= (files.failed() ? 2 : 5));
        CHECK(rows.front().starts_with(",0,1,1"));
        CHECK(rows.back().starts_with("7,0,6,3"));
      });
}

TEST_CASE("numbers in metrics.csv read back exactly", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  const double third = 1.0 / 3;
  {
    CsvLogger logger(files, dir.path());
    logger.log(1, 0, Row{{"x", third}, {"y", std::numeric_limits<double>::quiet_NaN()}});
  }
  const std::string content = slurp(dir.file("metrics.csv"));
  const std::string row = content.substr(content.find('\n') + 1);
  CHECK(std::stod(row.substr(4)) == third);
  CHECK(row.ends_with(",nan\n"));
}

TEST_CASE("metrics.jsonl has one object a row", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  JsonlLogger logger(files, dir.path());
  logger.log(4, 1, Row{{"loss", 0.5}, {"q\"", std::numeric_limits<double>::infinity()}});
  logger.log(5, 1, Row{});
  CHECK(slurp(dir.file("metrics.jsonl")).empty());
  logger.flush();
  const std::string content = slurp(dir.file("metrics.jsonl"));
  CHECK(content == "{\"step\":4,\"epoch\":1,\"loss\":0.5,\"q\\\"\":null}\n{\"step\":5,\"epoch\":1}\n");
}

TEST_CASE("a logger that cannot write names its file", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  CHECK_THROWS_WITH(CsvLogger(files, dir.file("none")), cxtrain::test::contains("none/metrics.csv"));
  CHECK_THROWS_AS(JsonlLogger(files, dir.file("none")), Error);
  CHECK_THROWS_AS(TensorBoardLogger(files, dir.file("none")), Error);
  AppendFile full(files, "/dev/full");
  full.append("x");
  CHECK_THROWS_WITH(full.flush(), cxtrain::test::contains("/dev/full") && cxtrain::test::contains("space"));
}

TEST_CASE("a TFRecord carries masked CRC-32C sums", "[loggers]") {
  const std::string record = tf_record("123456789");
  REQUIRE(record.size() == 8 + 4 + 9 + 4);
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(record[at + i]);
    return value;
  };
  CHECK(word(0) == 9);
  CHECK(word(4) == 0);
  CHECK(record.substr(12, 9) == "123456789");
  // CRC-32C("123456789") is 0xe3069283 (RFC 3720's check value), masked as TFRecord does.
  constexpr std::uint32_t kCrc = 0xe3069283;
  CHECK(word(21) == ((kCrc >> 15 | kCrc << 17) + 0xa282ead8U));
}

TEST_CASE("events hold tag, value and step", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  EventWriter writer(files, dir.path());
  CHECK(writer.path().find("/events.out.tfevents.") != std::string::npos);
  const std::string head = slurp(writer.path());
  CHECK(head.find("brain.Event:2") != std::string::npos);
  writer.add_scalars(300, 0.5, Row{{"loss", 1.5}});
  writer.flush();
  // Event{wall_time 0.5, step 300, summary{value{tag "loss", simple_value 1.5}}} in protobuf's wire format.
  const std::string value = std::string("\x0a\x04loss\x15", 7) + std::string("\0\0\xc0\x3f", 4);
  const std::string event = std::string("\x09\0\0\0\0\0\0\xe0\x3f\x10\xac\x02\x2a\x0d\x0a\x0b", 16) + value;
  CHECK(slurp(writer.path()) == head + tf_record(event));
}

TEST_CASE("TensorBoard gets an image as a PNG file, and a text", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  TensorBoardLogger logger(files, dir.path());
  const at::Tensor image = at::arange(3 * 4 * 6).to(at::kByte).reshape({3, 4, 6});
  CHECK(logger.log_image("samples", image, 7));
  CHECK(logger.log_text("notes", "# one\n\xff\x1b", 8));
  CHECK(logger.log_image("grey", image.narrow(0, 1, 1), 9));
  logger.flush();
  std::string content;
  for (const auto& file : std::filesystem::directory_iterator(dir.path()))
    content += slurp(file.path().string());
  CHECK(whole_records(content) == content.size());
  const auto events = test::read_events(content);
  REQUIRE(events.size() == 3);
  CHECK(
      (events[0] == test::ReadEvent{.step = 7, .tag = "samples", .png = to_png(image), .shape = {4, 6, 3}}));
  // As torch.utils.tensorboard names it.
  CHECK((events[1] ==
         test::ReadEvent{.step = 8, .tag = "notes/text_summary", .text = "# one\n??", .plugin = "text"}));
  CHECK((events[2].shape == std::array<std::uint64_t, 3>{4, 6, 1}));
  // Value{tag "notes/text_summary", tensor{dtype DT_STRING, shape [1], "# one\n??"}, metadata} in the wire
  // format.
  CHECK(content.find(std::string("\x42\x12\x08\x07\x12\x04\x12\x02\x08\x01\x42\x08# one\n??", 20)) !=
        std::string::npos);
}

TEST_CASE("images and texts that no logger keeps cost one warning each", "[loggers]") {
  const SteadyClock clock;
  const TempDir dir;
  RealFilesystem files;
  Log log{1};  // rank 0 would write to the console, too
  log.open_file(files, dir.path());
  const auto warnings = [&](const std::string& call) {
    const std::string text = slurp(dir.file("rank_1.log"));
    std::size_t count = 0;
    for (std::size_t at = text.find(call); at != std::string::npos; at = text.find(call, at + 1)) ++count;
    return count;
  };
  MetricLoggers none(clock), loggers(clock), with_tensorboard(clock);
  CsvLogger csv(files, dir.path());
  loggers.add(csv);
  with_tensorboard.add(csv);
  TensorBoardLogger tensorboard(files, dir.path());
  with_tensorboard.add(tensorboard);
  const at::Tensor image = at::zeros({1, 2, 2}, at::kByte);
  for (MetricLoggers* each : {&none, &with_tensorboard}) {
    each->log_image("a", image, 1);
    each->log_text("a", "b", 1);
  }
  CHECK(warnings("log_") == 0);
  for (int step = 0; step < 3; ++step) {
    loggers.log_image("a", image, step);
    loggers.log_text("a", "b", step);
  }
  CHECK(warnings("log_image") == 1);
  CHECK(warnings("log_text") == 1);
  CHECK(warnings("--loggers.tensorboard") == 2);
}

TEST_CASE("hyperparameters are in files of their own, and in TensorBoard's table", "[loggers]") {
  const TempDir dir;
  RealFilesystem files;
  const Hyperparameters hparams{{"data.path", "a\nb"},
                                {"model.act", "relu"},
                                {"model.bias", "true"},
                                {"model.lr", "1e-05"},
                                {"model.width", "32"}};
  CsvLogger(files, dir.path()).log_hyperparams(hparams);
  CHECK(slurp(dir.file("hparams.yaml")) ==
        "data.path: \"a\\nb\"\nmodel.act: \"relu\"\nmodel.bias: true\nmodel.lr: 1.0e-05\nmodel.width: 32\n");
  JsonlLogger(files, dir.path()).log_hyperparams(hparams);
  CHECK(slurp(dir.file("hparams.json")) ==
        "{\n  \"data.path\": \"a\\nb\",\n  \"model.act\": \"relu\",\n  \"model.bias\": true,\n"
        "  \"model.lr\": 1e-05,\n  \"model.width\": 32\n}\n");
  EventWriter writer(files, dir.path());
  writer.add_hyperparameters(0.5, {{"lr", "1.5"}});
  writer.flush();
  const std::string events = slurp(writer.path());
  // SessionStartInfo{hparams{"lr": Value{number_value 1.5}}, start_time_secs 0.5} of the plugin "hparams".
  const std::string session = std::string("\x0a\x0f\x0a\x02lr\x12\x09\x11\0\0\0\0\0\0\xf8\x3f", 17) +
                              std::string("\x29\0\0\0\0\0\0\xe0\x3f", 9);
  CHECK(events.find("\x1a\x1a" + session) != std::string::npos);
  CHECK(test::read_events(events).back().tag == "_hparams_/session_start_info");

  // A resumed run begins another file.
  TensorBoardLogger logger(files, dir.path());
  logger.log_hyperparams(hparams);
  logger.on_load_checkpoint({}, {files, dir.path()});
  logger.flush();
  std::string all;
  for (const auto& file : std::filesystem::directory_iterator(dir.path()))
    if (file.path().filename().string().starts_with("events")) all += slurp(file.path().string());
  CHECK(all.find("model.width") != std::string::npos);
}

TEST_CASE("numbers in hparams.yaml are numbers for YAML 1.1 and for YAML 1.2", "[loggers]") {
  const std::vector<std::pair<std::string, std::string>> numbers{
      {"1.0e5", "1.0e+05"}, {"1e5", "1.0e+05"}, {"1E5", "1.0e+05"}, {"2.5e-7", "2.5e-07"},
      {"1e-05", "1.0e-05"}, {"0.1", "0.1"},     {"1.0", "1.0"},     {"5.", "5.0"},
      {".5", "0.5"},        {"010", "10"},      {"-3", "-3"},       {"1e400", "\"1e400\""}};
  for (const auto& [typed, written] : numbers) {
    CAPTURE(typed);
    CHECK(to_yaml({{"lr", typed}}) == "lr: " + written + "\n");
  }
}

TEST_CASE("rows are flushed every few seconds, on the way of later rows and between them", "[loggers]") {
  struct : Clock {
    double now() const override { return time; }
    double time = 100;
  } clock;
  const TempDir dir;
  RealFilesystem files;
  MetricLoggers loggers(clock);
  CsvLogger csv(files, dir.path());
  loggers.add(csv);
  const auto rows = [&] {
    const std::string text = slurp(dir.file("metrics.csv"));
    return std::count(text.begin(), text.end(), '\n') - 1;  // without the header
  };
  loggers.log(1, 0, Row{{"x", 1}});  // the first at once: who watches sees that it has begun
  CHECK(rows() == 1);
  loggers.log(2, 0, Row{{"x", 2}});
  CHECK(rows() == 1);
  clock.time += 2;
  loggers.flush_when_due();
  CHECK(rows() == 1);
  clock.time += 2;
  loggers.flush_when_due();
  CHECK(rows() == 2);
  clock.time += 10;
  loggers.log(3, 0, Row{{"x", 3}});
  CHECK(rows() == 3);
}

TEST_CASE("a folder that is deleted costs its rows, which are counted, and no more", "[loggers]") {
  const SteadyClock clock;
  const TempDir dir;
  RealFilesystem files;
  MetricLoggers loggers(clock);
  CsvLogger csv(files, dir.path());
  loggers.add(csv);
  JsonlLogger jsonl(files, dir.path());
  loggers.add(jsonl);
  TensorBoardLogger tensorboard(files, dir.path());
  loggers.add(tensorboard);
  loggers.log(1, 0, Row{{"x", 1}});
  loggers.flush();
  CHECK(loggers.lost_rows() == 0);
  std::filesystem::remove_all(dir.path());
  loggers.log(2, 0, Row{{"x", 2}});
  loggers.log(3, 0, Row{{"y", 3}});  // a new column: the file is written anew
  loggers.log_image("x", at::zeros({1, 2, 2}, at::kByte), 3);
  loggers.flush();
  CHECK(loggers.lost_rows() == 2);
}
