#include "cxtrain/report/run_status.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string_view>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"

namespace cxtrain {
namespace {

using StatusJson = nlohmann::ordered_json;

/// A run reports every 10 s between two steps, and not during a validation.
constexpr double kSilence = 120;  // s

/// How much of the ends of events files is read, and of how many ranks: they may be many and long.
constexpr std::uint64_t kEndOfEvents = std::uint64_t{64} << 10;
constexpr std::size_t kMaxRanksRead = 1024;
constexpr std::size_t kMaxErrors = 5;

/// A user's own config.yaml may lie beside the folder of the runs.
bool is_run(Filesystem& files, const std::string& path) {
  const auto has = [&](std::string_view name) {
    return files.status(path + "/" + std::string(name)).has_value();
  };
  return has(kRunLockFile) || has("run.json") || (has("config.yaml") && !has("cxtrain_logs"));
}

void read_end(Filesystem& files, RunStatus& status) {
  const auto summary = parse_summary(text_of_run_file(files, status.run + "/run.json"));
  if (!summary) return;
  status.end = summary->status;
  status.exit_code = summary->exit_code;
}

/// Rank 0, and other ranks that have a file of events: the first kMaxRanksRead.
std::vector<int> ranks_with_events(Filesystem& files, const std::string& run) {
  constexpr std::string_view kBegin = "events_rank_", kEnd = ".jsonl";
  std::vector<int> ranks{0};
  std::vector<std::string> names;
  try {
    names = files.list(run);
  } catch (const FileError&) {
    // The events of rank 0 may be readable.
  }
  for (const std::string& name : names) {
    if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size())
      continue;
    const auto rank = number_of_digits(name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()));
    if (rank && *rank > 0 && *rank <= std::numeric_limits<int>::max())
      ranks.push_back(static_cast<int>(*rank));
  }
  std::ranges::sort(ranks);
  if (ranks.size() > kMaxRanksRead) ranks.resize(kMaxRanksRead);
  return ranks;
}

void read_errors(Filesystem& files, RunStatus& status) {
  std::vector<RunEvent> errors;
  const auto take = [&](const RunEvent& event) {
    if (event.event == RunEvent::Kind::error) errors.push_back(event);
    if (event.event == RunEvent::Kind::straggler) status.straggler = shortened(line_of(event));
  };
  for (const int rank : ranks_with_events(files, status.run)) {
    try {
      read_run_events(files, status.run, rank, kEndOfEvents, take);
    } catch (const FileError&) {
      // As if there were none.
    }
  }
  std::ranges::stable_sort(errors, {}, &RunEvent::time);
  const std::size_t first = errors.size() - std::min(errors.size(), kMaxErrors);
  for (std::size_t i = first; i < errors.size(); ++i) status.errors.push_back(shortened(line_of(errors[i])));
}

void find_newest_checkpoint(Filesystem& files, RunStatus& status) {
  // Runs may share another folder, and who wrote what is damaged nobody knows.
  const bool shared = status.progress && !status.progress->checkpoint_folder.empty();
  status.checkpoint_folder = shared ? status.progress->checkpoint_folder : status.run + "/checkpoints";
  std::vector<std::string> damaged;
  try {
    for (const FoundCheckpoint& found : find_checkpoints(files, status.checkpoint_folder, damaged)) {
      const Manifest& manifest = found.manifest;
      if (shared && manifest.log_dir != status.progress->run) continue;
      status.checkpoint = {found.path, manifest.epoch, manifest.global_step};
      break;
    }
  } catch (const Error&) {
    // As if there were none.
  }
  status.damaged_checkpoints = shared ? 0 : static_cast<int>(damaged.size());
}

RunStatus::State state_of(const RunStatus& status) {
  using State = RunStatus::State;
  if (status.locked == false) return status.end.empty() ? State::died : State::ended;
  if (!status.end.empty() && !status.locked) return State::ended;
  if (!status.progress) return State::starting;
  return status.silent_seconds > kSilence ? State::silent : State::running;
}

/// What an exit status means for who looks after the run.
std::string meaning_of(const RunStatus& status) {
  switch (static_cast<ExitCode>(status.exit_code)) {
    case ExitCode::done:
      return "to its end";
    case ExitCode::refused:
      return "refused";
    case ExitCode::requeue:
      return "its state is saved: start it again to resume";
    case ExitCode::do_not_requeue:
      return "it would fail again";
    case ExitCode::interrupted:
      return "interrupted";
    case ExitCode::terminated:
      return status.checkpoint ? "ended from outside after its newest checkpoint, from which it can resume"
                               : "ended from outside before it could save";
    case ExitCode::failure:
      break;
  }
  return "an error";
}

std::string describe(const ProgressReport& progress, bool goes_on) {
  // After the last epoch none is running.
  std::string text =
      progress.training ? "epoch " + std::to_string(progress.epoch + 1) : std::to_string(progress.epoch);
  if (progress.max_epochs >= 0) text += "/" + std::to_string(progress.max_epochs);
  if (!progress.training) text += " epochs";
  if (progress.training && progress.batches > 0)
    text += ", batch " + std::to_string(progress.batch) + "/" + std::to_string(progress.batches);
  text += ", step " + std::to_string(progress.step);
  if (progress.max_steps >= 0) text += "/" + std::to_string(progress.max_steps);
  if (progress.steps_per_second > 0) {
    text += "; " + format_rate(progress.steps_per_second) + " steps/s, " +
            format_rate(progress.samples_per_second) + " samples/s";
  }
  if (goes_on && progress.training && progress.seconds_left)
    text += ", " + format_elapsed(*progress.seconds_left) + " left";
  return text;
}

}  // namespace

std::string state_text(const RunStatus& status) {
  const std::string by = status.holder.empty() ? "" : " by " + status.holder;
  const auto seconds = std::to_string(std::llround(std::max(0.0, status.silent_seconds)));
  switch (status.state) {
    case RunStatus::State::starting:
      return "starting" + by;
    case RunStatus::State::running:
      return "running" + by + ", last sign " + seconds + " s ago";
    case RunStatus::State::silent:
      return "running" + by + ", but without a sign for " + seconds +
             " s: a long validation or checkpoint, or ranks that wait for one (rank_*.log)";
    case RunStatus::State::ended:
      return status.end + " with status " + std::to_string(status.exit_code) + ": " + meaning_of(status);
    case RunStatus::State::died:
      break;
  }
  return "died without a status" + (by.empty() ? " (its process is unknown)" : "; it was run" + by) +
         ": killed, out of memory, or its node is lost";
}

std::string find_run(Filesystem& files, const std::string& path, const std::string& command) {
  if (is_run(files, path)) return path;
  std::string folder = path;
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  std::vector<std::string> runs = version_dirs(files, folder);
  const std::filesystem::path logs = folder;
  if (runs.empty() && logs.filename() == "cxtrain_logs") {
    const std::string above = logs.parent_path().string();
    runs = version_dirs(files, above.empty() ? "." : above);
  }
  if (!runs.empty()) return runs.front();
  throw ConfigError("", command + ": there is no run in '" + path + "'",
                    "name a run's folder (.../cxtrain_logs/version_N), or the default_root_dir above it",
                    MessageCode::file_failed);
}

RunStatus read_run_status(Filesystem& files, const std::string& run, double now) {
  RunStatus status;
  status.run = run;
  // In this order: a run that ends meanwhile has its run.json before its lock is gone.
  status.locked = run_folder_is_locked(files, run);
  status.holder = owner_of_run_folder(files, run);
  read_end(files, status);
  status.progress = parse_progress(text_of_run_file(files, run + "/" + std::string(kProgressFile)));
  if (status.progress) status.silent_seconds = now - status.progress->time;
  find_newest_checkpoint(files, status);
  read_errors(files, status);
  status.state = state_of(status);
  return status;
}

std::string to_text(const RunStatus& status) {
  std::ostringstream out;
  const auto line = [&](const char* name, const std::string& text) {
    out << name << std::string(12 - std::string_view(name).size(), ' ') << text << '\n';
  };
  line("run", status.run);
  line("state", state_text(status));
  if (status.progress) {
    const ProgressReport& progress = *status.progress;
    line("world", counted(progress.ranks, "rank") + " on " + counted(progress.nodes, "node") +
                      ", rank 0 on " + progress.host);
    const bool older = status.checkpoint && status.checkpoint->step > progress.step;
    const bool goes_on =
        status.state == RunStatus::State::running || status.state == RunStatus::State::silent;
    line("progress", describe(progress, goes_on) + (older ? " (as of before the checkpoint)" : ""));
    const auto text_of = [](const auto& metric) { return metric.first + " " + format_metric(metric.second); };
    if (!progress.metrics.empty()) line("metrics", joined(progress.metrics, ", ", text_of));
  }
  line("checkpoint", status.checkpoint
                         ? status.checkpoint->path + " (epoch " + std::to_string(status.checkpoint->epoch) +
                               ", step " + std::to_string(status.checkpoint->step) + ")"
                         : "none in " + status.checkpoint_folder);
  if (status.damaged_checkpoints > 0)
    line("", std::to_string(status.damaged_checkpoints) + " damaged: see checkpoint verify");
  if (!status.straggler.empty()) line("straggler", status.straggler);
  const bool failed = status.state == RunStatus::State::died ||
                      (status.state == RunStatus::State::ended && status.exit_code != 0);
  if (failed) {
    for (const std::string& error : status.errors) line("error", error);
  }
  return out.str();
}

std::string to_json(const RunStatus& status) {
  const bool ended = !status.end.empty() && status.state == RunStatus::State::ended;
  StatusJson json{{"run", status.run}, {"state", word_of(status.state)}, {"holder", status.holder}};
  json["silent_seconds"] = status.progress ? StatusJson(status.silent_seconds) : StatusJson();
  json["end"] = ended ? StatusJson(status.end) : StatusJson();
  json["exit_code"] = ended ? StatusJson(status.exit_code) : StatusJson();
  json["progress"] = status.progress ? json_of(*status.progress) : StatusJson();
  json["checkpoint"] = status.checkpoint ? json_of(*status.checkpoint) : StatusJson();
  json["damaged_checkpoints"] = status.damaged_checkpoints;
  json["straggler"] = status.straggler;
  json["errors"] = status.errors;
  return text_of_json(json);
}

}  // namespace cxtrain
