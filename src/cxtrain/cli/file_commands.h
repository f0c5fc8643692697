#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The subcommands that have grammars of their own, and no ranks.
namespace cxtrain {

struct FileCommand {
  std::string name;
  /// Prints what the words after the name ask for, and returns the exit status. Throws an Error.
  int (*run)(std::span<const char* const> words, std::ostream& out);
  bool prints_as_it_works = false;  ///< a user waits for it, and reads its lines meanwhile
};

/// `checkpoint`, `report`, `scaling` and `status`.
std::span<const FileCommand> file_commands();

/// The one of this name, or null.
const FileCommand* find_file_command(std::string_view name);

}  // namespace cxtrain
