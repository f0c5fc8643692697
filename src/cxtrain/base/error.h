#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/message_code.h"

/// Errors and exit statuses.
///
/// Every error that ends a rank is a `cxtrain::Error`: its message says what was asked, what was found and
/// what to do, and it carries the exit status that the process ends with. Nothing in the library calls
/// `exit()`; `run_main` (cli/main.h) catches, logs with rank, host and step, and ends the job.
namespace cxtrain {

/// Exit statuses of `cxtrain_mpi`, in the words of its contract.
enum class ExitCode : int {
  done = 0,
  failure = 1,          ///< anything that is none of the others
  refused = 2,          ///< configuration, usage, data or plugin refused before training
  requeue = 75,         ///< stopped early with a checkpoint saved (EX_TEMPFAIL)
  do_not_requeue = 93,  ///< will fail again
  interrupted = 130,    ///< ended at a step by SIGINT, files written (128 + SIGINT)
  terminated = 143,     ///< ended by a signal before it could save (128 + SIGTERM)
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, MessageCode message_code, const std::string& message)
      : std::runtime_error(message), code_(code), message_code_(message_code) {}
  ExitCode code() const noexcept { return code_; }
  MessageCode message_code() const noexcept { return message_code_; }

 private:
  ExitCode code_;
  MessageCode message_code_;
};

/// One refused option: which, why, and what to type instead (`hint` may be empty).
struct Problem {
  std::string option;
  std::string message;
  std::string hint;
  MessageCode code = MessageCode::invalid_value;
};

/// The user's request cannot be carried out as it stands. Collects all problems, so that they are reported at
/// once.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  ConfigError(const std::string& option, const std::string& message, const std::string& hint = "",
              MessageCode code = MessageCode::invalid_value)
      : ConfigError(std::vector<Problem>{{option, message, hint, code}}) {}
  const std::vector<Problem>& problems() const noexcept { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// A data file is missing, damaged or of another kind than asked for.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, MessageCode code = MessageCode::bad_data)
      : Error(ExitCode::refused, code, message) {}
};

/// A plugin could not be loaded, or offers something other than asked for.
class PluginError : public Error {
 public:
  explicit PluginError(const std::string& message, MessageCode code = MessageCode::plugin_failed)
      : Error(ExitCode::refused, code, message) {}
};

/// A saved state lacks something that a training needs, or belongs to a training of another kind.
class StateError : public Error {
 public:
  explicit StateError(const std::string& message, MessageCode code = MessageCode::bad_state)
      : Error(ExitCode::refused, code, message) {}
};

/// A collective failed, timed out, or found the ranks in disagreement.
class CommunicationError : public Error {
 public:
  explicit CommunicationError(const std::string& message,
                              MessageCode code = MessageCode::communication_failed)
      : Error(ExitCode::failure, code, message) {}
};

/// Training itself failed: a loss that cannot be differentiated, a gradient that is not finite under
/// `detect_anomaly`, an exception out of a user's hook.
class TrainingError : public Error {
 public:
  explicit TrainingError(const std::string& message, MessageCode code = MessageCode::training_failed)
      : Error(ExitCode::failure, code, message) {}
};

/// What an error says, in words for people: one of LibTorch without the stack frames at its end (they are
/// shown with $TORCH_SHOW_CPP_STACKTRACES=1, as PyTorch shows them), one of the standard library translated.
std::string message_of(const std::exception& error);

/// `message_of(error)` with the name of its code at the end: "... [out-of-range]". Everything that ends a
/// rank is printed in this form. Of several problems each line has its own code.
std::string printed(const std::exception& error);

/// The code of an error: an Error's own, `file_failed` for a path, `out_of_memory` for an allocation, else
/// `none`.
MessageCode message_code_of(const std::exception& error);

/// The exit status that an error asks for: an Error's own, `refused` where a path is at fault, else
/// `failure`.
ExitCode code_of(const std::exception& error);

// These keep messages readable, whatever was typed: a file of wrong keys makes ten thousands of problems, and
// a value may be as long as a command line.

/// So many problems are told at once.
inline constexpr std::size_t kMostProblems = 20;

/// The text, or its beginning and its end where it has more than `most` bytes.
std::string shortened(const std::string& text, std::size_t most = 4000);

/// The text for a terminal: '?' replaces each control character except line feed and tab, and each byte that
/// is not UTF-8. Names and texts from files may contain any bytes, also escape sequences that control a
/// terminal.
std::string printable(std::string_view text);

/// The first problems, with their texts shortened, so that all of them together stay below 4,000 bytes; the
/// last one says how many more there were.
std::vector<Problem> first_of(const std::vector<Problem>& problems);

/// "--option: message (hint)"; an option that is not the name of one ("CUDA_VISIBLE_DEVICES") stays as it is.
std::string to_line(const Problem& problem);

/// `text [code]`; `text` alone for `none`.
std::string with_code(std::string text, MessageCode code);

}  // namespace cxtrain
