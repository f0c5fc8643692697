#include "cxtrain/cli/file_commands.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cli/checkpoint_command.h"
#include "cxtrain/cli/report_command.h"
#include "cxtrain/cli/scaling_command.h"
#include "cxtrain/cli/scaling_request.h"
#include "cxtrain/cli/status_command.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {

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
      FileCommand{"status", [](std::span<const char* const> words, std::ostream& out) {
                    return run_status_command(words, real_filesystem(), seconds_since_1970(),
                                              drawing_columns(STDOUT_FILENO), out);
                  }}};
  return kCommands;
}

const FileCommand* find_file_command(std::string_view name) {
  const auto all = file_commands();
  const auto found = std::ranges::find(all, name, &FileCommand::name);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace cxtrain
