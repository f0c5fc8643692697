#include "cxtrain/cli/file_commands.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ostream>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cli/checkpoint_command.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/report_command.h"
#include "cxtrain/cli/scaling_command.h"
#include "cxtrain/cli/scaling_request.h"
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

/// `cxtrain_mpi status PATH [--json]`: how the run in a folder is (report/run_status.h). Needs no GPU, starts
/// no MPI. Draws curves where stdout is a terminal. Returns the exit status: 0, however the run has
/// ended. Throws ConfigError for unknown words, and if the folder has no run.
int run_status_command(std::span<const char* const> words, std::ostream& out) {
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
  Filesystem& files = real_filesystem();
  RunStatus status;
  try {
    status = read_run_status(files, find_run(files, paths.empty() ? "." : paths[0]), seconds_since_1970());
  } catch (const FileError& error) {
    if (is_wrong_path(error))
      throw ConfigError("", std::string("status: ") + error.what(), "", message_code_of(error));
    throw;
  }
  if (json) return out << to_json(status) << '\n', 0;
  out << printable(to_text(status));
  const int columns = drawing_columns(STDOUT_FILENO);
  if (columns == 0) return 0;
  for (const std::string& line : sparklines_of_run(files, status.run, columns)) out << line << '\n';
  return 0;
}

}  // namespace

std::span<const FileCommand> file_commands() {
  static const std::array kCommands{
      FileCommand{"checkpoint",
                  [](std::span<const char* const> words, std::ostream& out) {
                    return run_checkpoint_command(words, real_filesystem(), out);
                  }},
      FileCommand{"report",
                  [](std::span<const char* const> words, std::ostream& out) {
                    return run_report_command(words, real_filesystem(), seconds_since_1970(), out);
                  }},
      FileCommand{kScaling,
                  [](std::span<const char* const> words, std::ostream& out) {
                    return run_scaling_command(words, program_path(), real_filesystem(), out);
                  },
                  /*prints_as_it_works=*/true},
      FileCommand{"status", run_status_command}};
  return kCommands;
}

const FileCommand* find_file_command(std::string_view name) {
  const auto all = file_commands();
  const auto found = std::ranges::find(all, name, &FileCommand::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace cxtrain
