#include "cxtrain/cli/status_command.h"

#include <ostream>
#include <string>
#include <vector>

#include "cxtrain/report/run_status.h"
#include "cxtrain/report/sparkline.h"

namespace cxtrain {
namespace {

constexpr const char* kStatusHelp =
    "cxtrain_mpi status PATH [--json]\n\n"
    "How a run is: where it runs, how far and how fast, when it will end, its last checkpoint, stragglers, "
    "and\n"
    "why it ended. PATH is a run's folder (.../cxtrain_logs/version_N), or the default_root_dir above it, "
    "whose\n"
    "newest run is shown; from any machine that sees it.\n";

}  // namespace

int run_status_command(std::span<const char* const> words, Filesystem& files, double now, int columns,
                       std::ostream& out) {
  std::vector<std::string> paths;
  std::vector<Problem> problems;
  bool json = false;
  for (const std::string word : words) {
    if (word == "--help" || word == "-h") return out << kStatusHelp, 0;
    if (word == "--json") {
      json = true;
    } else if (word.starts_with("-")) {
      problems.push_back({word, "is no option of status", "usage: status PATH [--json]"});
    } else {
      paths.push_back(word);
    }
  }
  if (paths.size() > 1) {
    problems.push_back(
        {"status", "takes one path, found " + std::to_string(paths.size()), "usage: status PATH [--json]"});
  }
  if (!problems.empty()) throw ConfigError(problems);
  RunStatus status;
  try {
    status = read_run_status(files, find_run(files, paths.empty() ? "." : paths[0]), now);
  } catch (const FileError& error) {
    if (is_wrong_path(error)) throw ConfigError("status", error.what());
    throw;
  }
  if (json) return out << to_json(status) << '\n', 0;
  out << printable(to_text(status));
  if (columns == 0) return 0;
  for (const std::string& line : sparklines_of_run(files, status.run, columns)) out << line << '\n';
  return 0;
}

}  // namespace cxtrain
