#pragma once

#include <iosfwd>
#include <span>
#include <string>

namespace cxtrain {

/// The first word of a command line.
struct Subcommand {
  enum class Kind {
    train,   ///< reads the options of a training, and runs the model
    look,    ///< reads the options of a training, and runs no model
    files,   ///< has a grammar of its own (`run`)
    phrase,  ///< is followed by one word: `help devices`, `completion bash`
  };

  std::string name;
  Kind kind;
  std::string usage;    ///< what follows the name: "PATH [--json]"
  std::string purpose;  ///< in one line: "train the model (the default)"
  /// Carries out a subcommand of the kind `files`: prints what `words`, the words after the name, ask for,
  /// and returns the exit status. Starts no MPI. Throws an Error. Null for other kinds.
  int (*run)(std::span<const char* const> words, std::ostream& out) = nullptr;
  bool prints_as_it_works = false;  ///< a user waits for it, and reads its lines meanwhile
};

/// All of them, in the order of `-h`.
std::span<const Subcommand> subcommands();

/// The subcommand of this name, or null.
const Subcommand* find_subcommand(const std::string& name);

/// "status [PATH] [--json]". `name` is the name of a subcommand.
std::string usage_of(const std::string& name);

}  // namespace cxtrain
