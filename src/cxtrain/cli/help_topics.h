#pragma once

#include <span>
#include <string>

namespace cxtrain {

/// A name, and what it means.
struct Meaning {
  std::string name, meaning;
};

/// A page of `help TOPIC`.
struct HelpTopic {
  std::string name;                                  ///< "devices"
  std::string purpose;                               ///< in one line
  std::string group;                                 ///< of options that the page lists; empty: none
  std::span<const Meaning> (*meanings)() = nullptr;  ///< that the page lists; null: none
};

/// All of them: those with a group first.
std::span<const HelpTopic> help_topics();

/// The exit statuses of `cxtrain_mpi`, for batch scripts. The values are in base/error.h.
std::span<const Meaning> exit_statuses();

/// The codes at the end of error messages (base/message_code.h).
std::span<const Meaning> error_codes();

/// The environment variables that the program reads or sets.
std::span<const Meaning> environment_variables();

/// The ways to start ranks, and to resume: a command, and what it does.
std::span<const Meaning> ways_to_launch();
std::span<const Meaning> ways_to_resume();

}  // namespace cxtrain
