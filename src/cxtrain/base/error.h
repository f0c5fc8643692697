#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/message_code.h"

/// Errors and exit statuses.
///
/// Every error that ends a rank is a `cxtrain::Error`. Its message names the request, the cause and the fix;
/// it carries the exit status of the process. Nothing in the library calls `exit()`; `run_main` (cli/main.h)
/// catches, logs with rank, host and step, and ends the job.
namespace cxtrain {

/// Exit statuses of `cxtrain_mpi`, named as in its contract.
enum class ExitCode : int {
  done = 0,
  failure = 1,          ///< any other error
  refused = 2,          ///< configuration, usage, data or plugin rejected before training
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

/// A rejected option, the reason, and the text to type instead (`hint`; may be empty).
struct Problem {
  std::string option;
  std::string message;
  std::string hint;
  MessageCode code = MessageCode::invalid_value;
};

/// The user's request cannot be carried out. Collects all problems, so that one message reports all of them.
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

/// A data file is missing, damaged or not of the requested kind.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, MessageCode code = MessageCode::bad_data)
      : Error(ExitCode::refused, code, message) {}
};

/// A plugin could not be loaded, or does not offer the requested component.
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
/// `detect_anomaly`, an exception from a user's hook.
class TrainingError : public Error {
 public:
  explicit TrainingError(const std::string& message, MessageCode code = MessageCode::training_failed)
      : Error(ExitCode::failure, code, message) {}
};

/// Returns an error's message for people. A LibTorch message is cut before its stack frames, which
/// $TORCH_SHOW_CPP_STACKTRACES=1 shows, as in PyTorch. Messages of the standard library are translated, or
/// begin with the class of the exception ("std::out_of_range: map::at").
std::string message_of(const std::exception& error);

/// Returns the message of the exception that a `catch (...)` behind `catch (const std::exception&)` handles:
/// the exception's type.
std::string message_of_other_exception();

/// Returns `message_of(error)` with the name of its code at the end: "... [out-of-range]". Everything that
/// ends a rank is printed in this form. Of several problems each line has its own code.
std::string printed(const std::exception& error);

/// Returns the code of an error: an Error's own, `file_failed` for a path, `out_of_memory` for an allocation,
/// else `none`.
MessageCode message_code_of(const std::exception& error);

/// Returns the exit status for an error: an Error's own, `refused` if a path is at fault, else `failure`.
ExitCode code_of(const std::exception& error);

// These keep messages readable for any input: a file of wrong keys makes tens of thousands of problems, and a
// value may be as long as a command line.

/// Largest number of problems in a report.
inline constexpr std::size_t kMaxProblems = 20;

/// Returns the text, or its beginning and its end if it has more than `most` bytes.
std::string shortened(const std::string& text, std::size_t most = 4000);

/// Returns the text for a terminal: '?' replaces each control character except line feed and tab, and each
/// byte that is not UTF-8. Names and texts from files may contain any bytes, also escape sequences that
/// control a terminal.
std::string printable(std::string_view text);

/// Returns the first problems with shortened texts, below 4,000 bytes in total. If problems were left out,
/// the last entry gives their number.
std::vector<Problem> first_of(const std::vector<Problem>& problems);

/// Returns "--option: message (hint)". A name that is not an option's ("CUDA_VISIBLE_DEVICES") stays as it
/// is.
std::string to_line(const Problem& problem);

/// Returns "text [code]"; for `none` the text alone.
std::string with_code(std::string text, MessageCode code);

}  // namespace cxtrain
