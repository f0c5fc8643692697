#include "cxtrain/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>

#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/report/metric_rows.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/tensorboard/event_writer.h"

namespace cxtrain {
namespace {

constexpr std::size_t kMaxMetrics = 200, kLongestName = 200;
constexpr std::size_t kMaxMarks = 20'000, kMaxEvents = 200;
constexpr std::uint64_t kLargestText = std::uint64_t{1} << 20;   // of config.yaml, run.json, lr_find.csv
constexpr std::uint64_t kMaxOfEvents = std::uint64_t{64} << 20;  // from their end
constexpr std::uint64_t kWholeFile = std::numeric_limits<std::uint64_t>::max();

/// The text of a small file of a run; a note where the file may not be read.
std::string small_file(Filesystem& files, RunRecord& record, const std::string& name) {
  const std::string path = record.status.run + "/" + name;
  try {
    if (!files.own_status(path)) return {};
    if (is_file_of_run(files, path)) return read_whole_file(files, path, kLargestText);
    record.notes.push_back(name + " is a link, is not a file, or belongs to another user: it was not read");
  } catch (const FileError& error) {
    record.notes.push_back(name + " was not read: " + error.reason().message());
  }
  return {};
}

// ------------------------------------------------------------------ metrics

void read_metrics(Filesystem& files, RunRecord& record) {
  std::int64_t left_out = 0;
  const auto take = [&](const MetricRow& row) {
    for (const auto& [name, value] : row.metrics) {
      auto found = record.metrics.find(name);
      if (found == record.metrics.end()) {
        if (record.metrics.size() >= kMaxMetrics || name.size() > kLongestName) {
          ++left_out;
          continue;
        }
        found = record.metrics.emplace(name, Curve()).first;
      }
      found->second.add(static_cast<double>(row.step), value);
    }
  };
  MetricRowsRead read;
  try {
    read = read_metric_rows(files, record.status.run, kWholeFile, take);
  } catch (const FileError& error) {
    record.notes.push_back("the file of metrics was not read to its end: " + error.reason().message());
    return;
  }
  if (read.file.empty()) {
    record.notes.emplace_back("there are no rows in metrics.jsonl or metrics.csv");
    return;
  }
  if (read.damaged > 0) {
    record.notes.push_back(read.file + ": " + std::to_string(read.damaged) +
                           (read.damaged == 1 ? " line is not a row, and was left out"
                                              : " lines are not rows, and were left out"));
  }
  if (read.cut_short)
    record.notes.push_back(read.file + ": the last line is not complete, so the run writes it or was killed");
  if (left_out > 0) {
    record.notes.push_back(read.file + ": " + std::to_string(left_out) +
                           " values were left out; a report shows " + std::to_string(kMaxMetrics) +
                           " metrics, with names of up to " + std::to_string(kLongestName) + " bytes");
  }
}

/// The time of the last row of each step is kept: a validation logs a second row for its step.
void read_step_times(Filesystem& files, RunRecord& record) {
  EventTime before;
  bool known = false;
  read_event_times(files, record.status.run, [&](const EventTime& event) {
    if (known && !event.first && event.step > before.step && event.seconds >= before.seconds) {
      record.step_seconds.add(
          static_cast<double>(event.step),
          (event.seconds - before.seconds) / static_cast<double>(event.step - before.step));
    }
    before = event;
    known = true;
  });
}

void read_lr_sweep(Filesystem& files, RunRecord& record) {
  const std::string text = small_file(files, record, "lr_find.csv");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    char* rest = nullptr;
    const double rate = std::strtod(line.c_str(), &rest);
    if (rest == line.c_str() || *rest != ',' || !(rate > 0) || !std::isfinite(rate)) continue;
    record.lr_sweep.add(std::log10(rate), std::strtod(rest + 1, nullptr));
  }
}

// ------------------------------------------------------------------ events

/// What rank 0 has written about the run becomes marks, lines and facts.
class EventReader {
 public:
  explicit EventReader(RunRecord& record) : record_(record) {}

  void take(const RunEvent& event) {
    switch (event.event) {
      case RunEvent::Kind::checkpoint:
        return mark(RunRecord::Mark::Kind::checkpoint, event, {});
      case RunEvent::Kind::resumed:
        mark(RunRecord::Mark::Kind::restart, event, line_of(event));
        return add_line(event);
      case RunEvent::Kind::straggler:
        mark(RunRecord::Mark::Kind::straggler, event, line_of(event));
        return add_line(event);
      case RunEvent::Kind::lr_found:
        if (event.lr.value_or(0) > 0 && std::isfinite(*event.lr)) record_.lr_suggestion = event.lr;
        return;
      case RunEvent::Kind::devices:
        devices_ = shortened(event.text, 200);
        return;
      case RunEvent::Kind::warning:
      case RunEvent::Kind::error:
        return add_line(event);
    }
  }

  void finish() {
    keep_last_lines();
    if (devices_.empty()) return;
    const auto world = std::ranges::find(record_.facts, "world", &std::pair<std::string, std::string>::first);
    record_.facts.insert(world == record_.facts.end() ? world : world + 1, {"devices", devices_});
  }

 private:
  void keep_last_lines() {
    if (record_.events.size() <= kMaxEvents) return;
    record_.events.erase(record_.events.begin(),
                         record_.events.end() - static_cast<std::ptrdiff_t>(kMaxEvents));
  }
  void mark(RunRecord::Mark::Kind kind, const RunEvent& event, const std::string& text) {
    if (event.step && record_.marks.size() < kMaxMarks)
      record_.marks.push_back({kind, *event.step, shortened(text, 300)});
  }
  void add_line(const RunEvent& event) {
    record_.events.push_back(shortened(line_of(event), 600));
    if (record_.events.size() > 2 * kMaxEvents) keep_last_lines();
  }

  RunRecord& record_;
  std::string devices_;
};

void read_events(Filesystem& files, RunRecord& record) {
  const std::string name = events_file(0);
  try {
    EventReader reader(record);
    const RunEventsRead read = read_run_events(files, record.status.run, 0, kMaxOfEvents,
                                               [&](const RunEvent& event) { reader.take(event); });
    reader.finish();
    if (!read.found) {
      record.notes.push_back("there is no " + name +
                             ": restarts, stragglers, warnings and errors are not shown");
    }
    if (read.damaged > 0) {
      record.notes.push_back(name + ": " + std::to_string(read.damaged) +
                             (read.damaged == 1 ? " line is not an event, and was left out"
                                                : " lines are not events, and were left out"));
    }
    if (read.in_parts) record.notes.push_back(name + ": only the last 64 MiB were read");
  } catch (const FileError& error) {
    record.notes.push_back(name + " was not read: " + error.reason().message());
  }
}

// ------------------------------------------------------------------ facts

void add_fact(RunRecord& record, const std::string& name, const std::string& text) {
  if (!text.empty()) record.facts.emplace_back(name, text);
}

std::string steps_text(std::int64_t steps, std::int64_t epochs) {
  return std::to_string(steps) + " steps, " + std::to_string(epochs) + " epochs";
}

std::string mebibytes(double bytes) {
  constexpr double kMebi = 1024 * 1024, kGibi = kMebi * 1024;
  if (!(bytes > 0)) return {};
  return bytes >= kGibi ? format_metric(bytes / kGibi) + " GiB" : format_metric(bytes / kMebi) + " MiB";
}

/// The manifest of the newest checkpoint that is complete; marks all that are there.
std::optional<Manifest> read_checkpoints(Filesystem& files, RunRecord& record) {
  std::optional<Manifest> newest;
  std::vector<std::string> damaged;
  const bool shared = record.status.progress && !record.status.progress->checkpoint_folder.empty();
  try {
    for (const FoundCheckpoint& found : find_checkpoints(files, record.status.checkpoint_folder, damaged)) {
      if (shared && found.manifest.log_dir != record.status.progress->run) continue;
      if (record.marks.size() < kMaxMarks && found.manifest.global_step >= 0)
        record.marks.push_back({RunRecord::Mark::Kind::checkpoint, found.manifest.global_step, {}});
      if (!newest) newest = found.manifest;
    }
  } catch (const Error&) {
    // As if there were none.
  }
  if (record.status.damaged_checkpoints > 0)
    record.notes.push_back(std::to_string(record.status.damaged_checkpoints) +
                           " of the checkpoints are damaged: see checkpoint verify");
  return newest;
}

void read_facts(Filesystem& files, RunRecord& record) {
  const RunStatus& status = record.status;
  const std::string text = small_file(files, record, "run.json");
  const std::optional<RunSummary> summary = parse_summary(text);
  if (!text.empty() && !summary) record.notes.emplace_back("run.json is damaged");
  const std::optional<Manifest> manifest = read_checkpoints(files, record);

  add_fact(record, "status", state_text(status));
  if (summary) {
    add_fact(record, "trained", steps_text(summary->global_step, summary->epochs));
    if (summary->seconds > 0) add_fact(record, "time", format_elapsed(summary->seconds));
  } else if (status.progress) {
    add_fact(record, "trained", steps_text(status.progress->step, status.progress->epoch));
  }
  double rate = summary ? summary->samples_per_second : 0;
  if (!(rate > 0) && status.progress) rate = status.progress->samples_per_second;
  if (rate > 0) add_fact(record, "samples/s", format_rate(rate));
  std::string ranks;
  if (summary || status.progress || manifest) {
    ranks = std::to_string(summary           ? summary->world_size
                           : status.progress ? status.progress->ranks
                                             : manifest->world_size);
  }
  if (!ranks.empty()) {
    record.ranks = ranks + (ranks == "1" ? " rank" : " ranks");
    std::string world = record.ranks;
    if (status.progress) {
      record.ranks += " on " + counted(status.progress->nodes, "node");
      world = record.ranks + ", rank 0 on " + status.progress->host;
    }
    add_fact(record, "world", world);
  }
  const auto planned = [&](const char* name, const std::string& of_run, const std::string& of_checkpoint) {
    add_fact(record, name, of_run.empty() ? of_checkpoint : of_run);
  };
  planned("strategy", summary ? summary->strategy : "", manifest ? manifest->strategy : "");
  planned("precision", summary ? summary->precision : "", manifest ? manifest->precision : "");
  if (manifest) {
    add_fact(record, "model", manifest->model);
    if (manifest->global_batch > 0)
      add_fact(record, "global batch", std::to_string(manifest->global_batch) + " samples");
  }
  if (summary) {
    if (summary->first_step_seconds > 0)
      add_fact(record, "first step", "after " + format_metric(summary->first_step_seconds) + " s");
    add_fact(record, "memory of a rank", mebibytes(static_cast<double>(summary->peak_memory_bytes)));
    add_fact(record, "device memory", mebibytes(static_cast<double>(summary->peak_device_memory_bytes)));
  }
  if (status.checkpoint) {
    add_fact(record, "newest checkpoint",
             "step " + std::to_string(status.checkpoint->step) + ", epoch " +
                 std::to_string(status.checkpoint->epoch));
  }
  if (manifest) add_fact(record, "written by", manifest->program);
  if (summary) add_fact(record, "parameters", summary->parameters_sha256.substr(0, 16));
  add_fact(record, "folder", status.run);
}

/// By step, one of each kind at a step.
void sort_marks(std::vector<RunRecord::Mark>& marks) {
  const auto place = [](const RunRecord::Mark& mark) { return std::pair(mark.step, mark.kind); };
  std::ranges::stable_sort(marks, [&](const auto& a, const auto& b) { return place(a) < place(b); });
  marks.erase(std::unique(marks.begin(), marks.end(),
                          [&](const auto& a, const auto& b) { return place(a) == place(b); }),
              marks.end());
}

// ------------------------------------------------------------------ event files

/// Of a row of metrics; a larger record is not read.
constexpr std::uint64_t kLargestRecord = std::uint64_t{1} << 20;

void read_events_file(const ReadableFile& file, const std::function<void(const EventTime&)>& take) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::string buffer;
  std::uint64_t next = 0;
  bool first = true;
  for (std::size_t begin = 0;;) {
    const std::string_view rest = std::string_view(buffer).substr(begin);
    const std::uint64_t length = rest.size() < kHeadOfRecord ? 0 : length_of_record(rest);
    if (length > kLargestRecord) {  // an image
      const std::uint64_t place = next - rest.size(), size = file.size();
      if (length > size || place + kHeadOfRecord + length + kTailOfRecord > size) return;
      next = place + kHeadOfRecord + length + kTailOfRecord;
      buffer.clear();
      begin = 0;
      continue;
    }
    if (rest.size() < kHeadOfRecord || rest.size() < kHeadOfRecord + length + kTailOfRecord) {
      buffer.erase(0, begin);
      begin = 0;
      const std::size_t before = buffer.size();
      buffer.resize(before + kChunk);
      const std::size_t got = file.read(next, {buffer.data() + before, kChunk});
      buffer.resize(before + got);
      next += got;
      if (got == 0) return;
      continue;
    }
    EventTime event;
    if (read_row_time(rest.substr(kHeadOfRecord, static_cast<std::size_t>(length)), event.step,
                      event.seconds)) {
      event.first = first;
      first = false;
      take(event);
    }
    begin += kHeadOfRecord + static_cast<std::size_t>(length) + kTailOfRecord;
  }
}

struct ConfigLevel {
  std::size_t indent = 0;
  std::string key;
};

}  // namespace

RunRecord read_run_record(Filesystem& files, const std::string& run, double now) {
  RunRecord record;
  record.status = read_run_status(files, run, now);
  read_metrics(files, record);
  read_step_times(files, record);
  read_lr_sweep(files, record);
  read_facts(files, record);
  read_events(files, record);
  record.config = small_file(files, record, "config.yaml");
  sort_marks(record.marks);
  return record;
}

void read_event_times(Filesystem& files, const std::string& run,
                      const std::function<void(const EventTime&)>& take) {
  constexpr std::size_t kMaxFiles = 1000;
  try {
    std::size_t read = 0;
    for (const std::string& name : files.list(run)) {
      const std::string path = run + "/" + name;
      if (!name.starts_with(kEventsPrefix) || !is_file_of_run(files, path)) continue;
      if (++read > kMaxFiles) return;
      read_events_file(*files.open(path), take);
    }
  } catch (const FileError&) {
    // What was read so far is what there is.
  }
}

std::vector<ConfigLine> config_lines(std::string_view yaml) {
  constexpr std::size_t kMaxLines = 10'000, kMaxLevels = 20, kMaxKey = 1000;
  std::vector<ConfigLine> lines;
  std::vector<ConfigLevel> above;
  while (!yaml.empty() && lines.size() < kMaxLines) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size());
    ConfigLine line{.text = std::string(yaml.substr(0, end)), .key = {}, .value = {}};
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
    const std::size_t indent = std::min(line.text.find_first_not_of(' '), line.text.size());
    while (!above.empty() && above.back().indent >= indent) above.pop_back();
    const std::size_t colon = line.text.find(':', indent);
    if (colon != std::string::npos && line.text[indent] != '-' && above.size() < kMaxLevels) {
      std::string key =
          (above.empty() ? "" : above.back().key + ".") + line.text.substr(indent, colon - indent);
      if (key.size() > kMaxKey) key.resize(kMaxKey);
      const std::size_t value = line.text.find_first_not_of(' ', colon + 1);
      if (value != std::string::npos) {
        line.key = key;
        line.value = line.text.substr(value);
      }
      above.push_back({indent, std::move(key)});
    } else if (indent < line.text.size() && !above.empty()) {
      line.key = above.back().key + "[" + line.text.substr(indent, kMaxKey) + "]";
      line.value = line.text.substr(indent);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

std::map<std::string, std::vector<std::string>> config_differences(
    const std::vector<std::vector<ConfigLine>>& configs) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (const ConfigLine& line : configs[i]) {
      if (line.key.empty()) continue;
      std::vector<std::string>& of_all = values[line.key];
      of_all.resize(configs.size());
      of_all[i] = line.value;
    }
  }
  std::erase_if(values, [](const auto& entry) {
    const std::vector<std::string>& of_all = entry.second;
    return std::ranges::all_of(of_all, [&](const auto& value) { return value == of_all.front(); });
  });
  return values;
}

}  // namespace cxtrain
