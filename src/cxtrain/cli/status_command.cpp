#include "cxtrain/cli/status_command.h"

#include <ostream>
#include <string>
#include <vector>

#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/report/run_status.h"
#include "cxtrain/report/sparkline.h"

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

int run_status_command(std::span<const char* const> words, Filesystem& files, double now, int columns,
                       std::ostream& out) {
  std::vector<std::string> paths;
  std::vector<Problem> problems;
  bool json = false;
  for (const std::string word : words) {
    if (word == "--help" || word == "-h") return out << status_help(), 0;
    if (word == "--json") {
      json = true;
    } else if (word.starts_with("-")) {
      problems.push_back(
          {word, "is not an option of status", "usage: " + usage_of("status"), MessageCode::unknown_option});
    } else {
      paths.push_back(word);
    }
  }
  if (paths.size() > 1) {
    problems.push_back({"", "status takes one path, found " + std::to_string(paths.size()),
                        "usage: " + usage_of("status"), MessageCode::out_of_range});
  }
  if (!problems.empty()) throw ConfigError(problems);
  RunStatus status;
  try {
    status = read_run_status(files, find_run(files, paths.empty() ? "." : paths[0]), now);
  } catch (const FileError& error) {
    if (is_wrong_path(error))
      throw ConfigError("", std::string("status: ") + error.what(), "", message_code_of(error));
    throw;
  }
  if (json) return out << to_json(status) << '\n', 0;
  out << printable(to_text(status));
  if (columns == 0) return 0;
  for (const std::string& line : sparklines_of_run(files, status.run, columns)) out << line << '\n';
  return 0;
}

}  // namespace cxtrain
