#include "cxtrain/cli/status_command.h"

#include <unistd.h>

#include <ostream>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/report/run_status.h"
#include "cxtrain/report/sparkline.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {
namespace {

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
