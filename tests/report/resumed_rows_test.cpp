#include <ATen/ops/full.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "cxtrain/base/error.h"
#include "cxtrain/report/file_loggers.h"
#include "cxtrain/report/metric_loggers.h"
#include "cxtrain/report/tensorboard/event_writer.h"
#include "cxtrain/state/state_dict.h"
#include "support/catch.h"
#include "support/event_file.h"
#include "support/every_fault.h"
#include "support/temp_dir.h"

/// Files of metrics where a training is resumed: every row is there once, whatever was written after the
/// state was saved, and whenever the process or the machine went down.
namespace cxtrain {
namespace {

using test::FaultyFilesystem;

struct ResumedRow {
  std::int64_t step = 0;
  std::vector<MetricLogger::Metric> metrics;
};

/// The row of a step, always the same; keys come later, too.
ResumedRow row_of(std::int64_t step) {
  ResumedRow row{step, {}};
  const double value = 1.0 / static_cast<double>(step + 3);
  if (step % 3 != 1) row.metrics.emplace_back("loss", value);
  if (step % 5 == 4) row.metrics.emplace_back("val,loss", 2 * value);
  if (step % 11 == 10) row.metrics.emplace_back("a", 3 * value);
  return row;
}

/// The three loggers of a run in one folder.
class RunOfLoggers {
 public:
  RunOfLoggers(FaultyFilesystem& files, const std::string& folder) {
    make_directories(files, folder);
    own_.push_back(std::make_unique<CsvLogger>(files, folder));
    own_.push_back(std::make_unique<JsonlLogger>(files, folder));
    own_.push_back(std::make_unique<TensorBoardLogger>(files, folder));
    for (const auto& logger : own_) loggers_.add(*logger);
  }
  void log(std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step < last; ++step) {
      loggers_.log(step, step / 7, row_of(step).metrics);
      if (step % 6 == 5) loggers_.log_image("image", at::full({1, 3, 3}, step, at::kByte), step);
      if (step % 8 == 2) loggers_.log_text("text", std::to_string(step), step);
    }
  }
  void flush() { loggers_.flush(); }
  StateDict save() {
    StateDict state;
    loggers_.on_save_checkpoint(state);
    return state;
  }
  void resume(const StateDict& state, FaultyFilesystem& files, const std::string& from) {
    loggers_.on_load_checkpoint(state, {files, from});
  }
  std::int64_t lost() const { return loggers_.lost_rows(); }

 private:
  SteadyClock clock_;
  std::vector<std::unique_ptr<MetricLogger>> own_;
  MetricLoggers loggers_{clock_};
};

struct Content {
  std::string csv, jsonl;
  std::vector<test::ReadEvent> events;
  bool operator==(const Content&) const = default;
};

Content content_of(FaultyFilesystem& files, const std::string& folder) {
  Content content{
      read_whole_file(files, folder + "/metrics.csv"), read_whole_file(files, folder + "/metrics.jsonl"), {}};
  for (const std::string& name : files.list(folder)) {
    if (!name.starts_with(kEventsPrefix)) continue;
    const std::string bytes = read_whole_file(files, folder + "/" + name);
    CHECK(whole_records(bytes) == bytes.size());
    const auto events = test::read_events(bytes);
    content.events.insert(content.events.end(), events.begin(), events.end());
  }
  return content;
}

/// Files of the rows up to this step, written without a break.
Content undisturbed(std::int64_t steps) {
  FaultyFilesystem files;
  RunOfLoggers run(files, "/run");
  run.log(0, steps);
  run.flush();
  return content_of(files, "/run");
}

/// Everything that was written is on the disk.
void sync_all(FaultyFilesystem& files, const std::string& folder) {
  for (const std::string& name : files.list(folder)) files.append_to(folder + "/" + name)->sync();
  files.sync_directory(folder);
  files.sync_directory("/");
}

}  // namespace

TEST_CASE("a training that is resumed again and again writes every row once, in place or in new folders",
          "[loggers]") {
  std::mt19937 random(5);
  const auto number = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const bool in_place = round % 2 == 0;
    CAPTURE(round, in_place);
    FaultyFilesystem files;
    std::string folder = "/run0";
    std::optional<StateDict> state;
    std::int64_t step = 0;
    for (int part = 0; part < 4; ++part) {
      const std::string from = folder;
      if (!in_place) folder = "/run" + std::to_string(part);
      RunOfLoggers run(files, folder);
      if (state) run.resume(*state, files, from);
      const std::int64_t saved_at = step + number(20);
      run.log(step, saved_at);
      state = run.save();
      step = saved_at;
      run.log(step, step + number(20));  // lost, as far as it is in the files by now
      if (number(1) == 0) run.flush();
    }
    RunOfLoggers last(files, folder);
    last.resume(*state, files, folder);
    last.log(step, step + 13);
    last.flush();
    CHECK(last.lost() == 0);
    CHECK(content_of(files, folder) == undisturbed(step + 13));
  }
}

TEST_CASE("a run in a new folder leaves the files of the one that it comes from alone", "[loggers]") {
  FaultyFilesystem files;
  RunOfLoggers first(files, "/first");
  first.log(0, 9);
  const StateDict state = first.save();
  first.log(9, 14);
  first.flush();
  RunOfLoggers second(files, "/second");
  second.resume(state, files, "/first");
  second.log(9, 30);
  second.flush();
  CHECK(content_of(files, "/first") == undisturbed(14));
  CHECK(content_of(files, "/second") == undisturbed(30));
}

TEST_CASE("rows that were saved survive a crash of the machine at any moment of a resume in place",
          "[loggers]") {
  StateDict state;
  test::crash_at_every_call(
      [&](FaultyFilesystem& files) {
        RunOfLoggers run(files, "/run");
        run.log(0, 12);
        state = run.save();
        run.log(12, 23);
        run.flush();
        sync_all(files, "/run");
      },
      [&](FaultyFilesystem& files) {
        RunOfLoggers run(files, "/run");
        run.resume(state, files, "/run");
        run.log(12, 15);
        run.flush();
      },
      [&](FaultyFilesystem& disk, bool) {
        RunOfLoggers run(disk, "/run");
        run.resume(state, disk, "/run");
        run.flush();
        CHECK(content_of(disk, "/run") == undisturbed(12));
      });
}

TEST_CASE("a disk that fails while a training is resumed costs rows, not the training, nor what was there",
          "[loggers]") {
  StateDict state;
  test::fail_at_every_call(
      [&](FaultyFilesystem& files) {
        RunOfLoggers run(files, "/run");
        run.log(0, 12);
        state = run.save();
        run.log(12, 14);
        run.flush();
      },
      [&](FaultyFilesystem& files) {
        try {
          RunOfLoggers run(files, "/run");
          run.resume(state, files, "/run");
          run.log(12, 15);
          run.flush();
        } catch (const FileError&) {
          // The loggers cannot be made: a run is refused then.
        }
      },
      [&](FaultyFilesystem& files, bool) {
        RunOfLoggers run(files, "/run");
        run.resume(state, files, "/run");
        run.flush();
        CHECK(content_of(files, "/run") == undisturbed(12));
      });
}

TEST_CASE("files of metrics that are missing, cut short or spoilt cost their rows and no more", "[loggers]") {
  const std::string file =
      GENERATE(as<std::string>{}, "metrics.csv", "metrics.jsonl", "events.out.tfevents.");
  const int damage = GENERATE(0, 1, 2);  // removed, cut, emptied
  const bool in_place = GENERATE(true, false);
  CAPTURE(file, damage, in_place);
  FaultyFilesystem files;
  StateDict state;
  {
    RunOfLoggers run(files, "/run");
    run.log(0, 12);
    state = run.save();
  }
  for (const std::string& name : files.list("/run")) {
    if (!name.starts_with(file)) continue;
    const std::string path = "/run/" + name;
    if (damage == 0) files.remove(path);
    if (damage == 1) files.append_to(path)->truncate(files.status(path)->size - 5);
    if (damage == 2) files.append_to(path)->truncate(0);
  }
  const std::string folder = in_place ? "/run" : "/other";
  RunOfLoggers run(files, folder);
  run.resume(state, files, "/run");
  run.log(12, 20);
  run.flush();
  CHECK(run.lost() == 0);
  const Content content = content_of(files, folder), whole = undisturbed(20);
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  // Cutting costs one row.
  const std::int64_t missing = damage == 1 ? 1 : 12;
  CHECK(lines(whole.csv) - lines(content.csv) == (file == "metrics.csv" ? missing : 0));
  CHECK(lines(whole.jsonl) - lines(content.jsonl) == (file == "metrics.jsonl" ? missing : 0));
  CHECK(content.csv.ends_with(whole.csv.substr(whole.csv.rfind('\n', whole.csv.size() - 2))));
  CHECK(content.jsonl.ends_with(whole.jsonl.substr(whole.jsonl.rfind('\n', whole.jsonl.size() - 2))));
  CHECK((content.events == whole.events) == (file != kEventsPrefix));
  CHECK(content.events.back() == whole.events.back());
}

TEST_CASE("loggers that keep nothing, and two of one kind, are resumed as well", "[loggers]") {
  struct Plain : MetricLogger {
    explicit Plain(int& rows) : rows_(rows) {}
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
    void flush() override {}
    int& rows_;
  };
  struct Counting : MetricLogger {
    explicit Counting(std::int64_t& rows) : rows_(rows) {}
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
    void flush() override {}
    void on_save_checkpoint(StateDict& state) override { state.set("rows", rows_); }
    void on_load_checkpoint(const StateDict& state, const RunFolder&) override {
      rows_ = state.integer("rows");
    }
    std::int64_t& rows_;
  };
  struct Failing : MetricLogger {
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override {}
    void flush() override {}
    void on_save_checkpoint(StateDict& state) override {
      state.set("half", 1);
      throw FileError("write", "/nowhere", ENOSPC);
    }
    void on_load_checkpoint(const StateDict&, const RunFolder&) override { FAIL("nothing was saved for it"); }
  };
  const SteadyClock clock;
  int plain = 0;
  std::int64_t first = 3, second = 4;
  MetricLoggers loggers(clock);
  Plain plain_logger(plain);
  loggers.add(plain_logger);
  Counting first_counting(first);
  loggers.add(first_counting);
  Failing failing;
  loggers.add(failing);
  Counting second_counting(second);
  loggers.add(second_counting);
  StateDict state;
  loggers.on_save_checkpoint(state);
  loggers.log(1, 0, {});
  CHECK(first == 4);
  FaultyFilesystem files;
  loggers.on_load_checkpoint(state, {files, "/"});
  CHECK(first == 3);
  CHECK(second == 4);
  CHECK(plain == 1);
}

TEST_CASE("links in the folder of the run before give no rows", "[loggers]") {
  const test::TempDir dir;
  RealFilesystem files;
  const std::string secret = dir.write("secret", "step,epoch\n{\"secret\": 1}\n");
  files.make_directory(dir.file("before"));
  files.make_directory(dir.file("run"));
  for (const char* name : {"metrics.csv", "metrics.jsonl"})
    std::filesystem::create_symlink(secret, dir.file("before/") + name);
  const RunFolder before{files, dir.file("before")};
  StateDict rows, bytes;
  rows.set("columns", std::string("epoch,step\n"));
  rows.set("rows", std::int64_t{5});
  bytes.set("bytes", std::int64_t{1000});
  CsvLogger csv(files, dir.file("run"));
  csv.on_load_checkpoint(rows, before);
  JsonlLogger jsonl(files, dir.file("run"));
  jsonl.on_load_checkpoint(bytes, before);
  for (const char* name : {"/metrics.csv", "/metrics.jsonl"})
    CHECK(test::slurp(dir.file("run") + name).find("secret") == std::string::npos);
}

TEST_CASE("a state cannot make the TensorBoard logger write files of other names", "[loggers]") {
  FaultyFilesystem files;
  files.make_directory("/run");
  files.make_directory("/before");
  write_atomically(files, "/x", "precious");
  write_atomically(files, "/before/events.out.tfevents.1", "");
  TensorBoardLogger logger(files, "/run");
  for (const char* name : {"../x", "x", "events.out.tfevents./../../x", ""}) {
    StateDict state;
    state.set(name, std::int64_t{0});
    CHECK_THROWS_AS(logger.on_load_checkpoint(state, {files, "/before"}), StateError);
  }
  CHECK(read_whole_file(files, "/x") == "precious");
}

TEST_CASE("only whole records of an events file count", "[loggers]") {
  const std::string first = tf_record("one"), second = tf_record("record two");
  const std::string both = first + second;
  CHECK(whole_records("") == 0);
  CHECK(whole_records(both) == both.size());
  for (std::size_t size = 0; size < both.size(); ++size)
    CHECK(whole_records(both.substr(0, size)) == (size < first.size() ? 0 : first.size()));
  for (std::size_t i = first.size(); i < both.size(); ++i) {
    std::string spoilt = both;
    spoilt[i] = static_cast<char>(spoilt[i] ^ 1);
    CHECK(whole_records(spoilt) == first.size());
  }
  CHECK(whole_records(first + std::string(64, '\0')) == first.size());
}

}  // namespace cxtrain
