#include "cxtrain/cli/report_command.h"

#include <unistd.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/report/report_page.h"
#include "cxtrain/report/run_record.h"
#include "cxtrain/report/run_status.h"
#include "cxtrain/report/sparkline.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {
namespace {

std::string report_help() {
  HelpPage page = page_of_command(
      "report",
      "Writes one HTML file about runs: curves of all metrics, learning rate, step time, checkpoints and "
      "restarts, "
      "tables, and the differences of the configurations. The file loads nothing from elsewhere. RUN is the "
      "folder of a "
      "run (.../cxtrain_logs/version_N), or the default_root_dir above it, whose newest run is taken. The "
      "run may still "
      "be running. Several runs are drawn side by side.");
  page.line();
  page.entry("--out FILE", "write this file [report.html in the first run's folder]");
  return page.text();
}

/// A page of more runs shows nothing.
constexpr std::size_t kMaxRuns = 50;

CommandWords read_report_words(std::span<const char* const> words) {
  std::vector<Problem> problems;
  const std::vector<std::string> all(words.begin(), words.end());
  CommandWords sorted = sort_words(all, "report", usage_of("report"), {}, {"--out"}, problems);
  if (sorted.help) return sorted;
  if (sorted.paths.empty())
    problems.push_back(
        {"", "report: no run is named", "usage: " + usage_of("report"), MessageCode::missing_value});
  if (sorted.paths.size() > kMaxRuns) {
    problems.push_back({"",
                        "report takes " + std::to_string(kMaxRuns) + " runs at most, found " +
                            std::to_string(sorted.paths.size()),
                        "write several reports", MessageCode::out_of_range});
  }
  if (!problems.empty()) throw ConfigError(problems);
  return sorted;
}

/// The folders of the runs, each once.
std::vector<std::string> find_runs(Filesystem& files, const std::vector<std::string>& paths) {
  std::vector<std::string> runs;
  std::vector<Problem> problems;
  for (const std::string& path : paths) {
    try {
      const std::string run = find_run(files, path, "report");
      if (std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
    } catch (const ConfigError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    } catch (const FileError& error) {
      if (!is_wrong_path(error)) throw;
      problems.push_back({"", std::string("report: ") + error.what(), "", message_code_of(error)});
    }
  }
  if (!problems.empty()) throw ConfigError(problems);
  return runs;
}

std::string status_help() {
  return page_of_command(
             "status",
             "Reports where a run runs, how far and how fast it is, when it will end, its last checkpoint, "
             "stragglers, and why it ended. PATH is the folder of a run (.../cxtrain_logs/version_N), or the "
             "default_root_dir above it, whose newest run is shown [the current folder]. Any machine that "
             "sees the "
             "folder can ask.")
      .text();
}

}  // namespace

int run_report_command(std::span<const char* const> words, Filesystem& files, double now, std::ostream& out) {
  const CommandWords sorted = read_report_words(words);
  if (sorted.help) return out << report_help(), 0;
  const std::string chosen = sorted.value("--out");
  const std::vector<std::string> folders = find_runs(files, sorted.paths);
  std::vector<RunRecord> records;
  for (const std::string& folder : folders) records.push_back(read_run_record(files, folder, now));
  const std::string path = chosen.empty() ? folders.front() + "/report.html" : chosen;
  try {
    write_atomically(files, path, report_page(records, now));
  } catch (const FileError& error) {
    throw ConfigError(chosen.empty() ? "" : "--out", error.what(),
                      chosen.empty() ? "name another file with --out" : "", message_code_of(error));
  }
  out << printable(path) << ": " << counted(records.size(), "run") << '\n';
  for (const RunRecord& record : records) {
    for (const std::string& note : record.notes)
      out << "note: " << printable(record.status.run + ": " + note) << '\n';
  }
  return 0;
}

int run_status_command(std::span<const char* const> words, std::ostream& out) {
  std::vector<Problem> problems;
  const std::vector<std::string> all(words.begin(), words.end());
  const CommandWords sorted = sort_words(all, "status", usage_of("status"), {"--json"}, {}, problems);
  if (sorted.help) return out << status_help(), 0;
  if (sorted.paths.size() > 1) {
    problems.push_back({"", "status takes one path, found " + std::to_string(sorted.paths.size()),
                        "usage: " + usage_of("status"), MessageCode::out_of_range});
  }
  if (!problems.empty()) throw ConfigError(problems);
  Filesystem& files = real_filesystem();
  RunStatus status;
  try {
    const std::string run = find_run(files, sorted.paths.empty() ? "." : sorted.paths[0]);
    status = read_run_status(files, run, seconds_since_1970());
  } catch (const FileError& error) {
    if (is_wrong_path(error))
      throw ConfigError("", std::string("status: ") + error.what(), "", message_code_of(error));
    throw;
  }
  if (sorted.flags.contains("--json")) return out << to_json(status) << '\n', 0;
  out << printable(to_text(status));
  const int columns = drawing_columns(STDOUT_FILENO);
  if (columns == 0) return 0;
  for (const std::string& line : sparklines_of_run(files, status.run, columns)) out << line << '\n';
  return 0;
}

}  // namespace cxtrain
