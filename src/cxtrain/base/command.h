#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cxtrain {

/// Pointers to the words and a null behind them, as exec(3) and MPI take them; for as long as the words live.
std::vector<char*> argument_vector(std::span<const std::string> words);

/// A word as a shell reads it: itself, or in single quotes.
std::string shell_quoted(const std::string& word);

/// The exit status as shells count, of what waitpid(2) says: 128 + N where signal N ended the process.
int shell_status(int wait_status);

/// Another program's end.
struct CommandEnd {
  int status = 0;      ///< its exit status; 128 + N where signal N ended it
  std::string output;  ///< what it wrote, errors included
};

/// Runs a program, found in $PATH, to its end, with nothing to read. One that has not ended after `seconds`
/// is killed. Throws Error where it cannot be started.
CommandEnd run_command(std::span<const std::string> words, double seconds);

/// The answer of a copy of this process, and how the copy has ended.
struct ChildAnswer {
  std::string text;
  bool in_time = false;  ///< false: the copy was killed, and the text may be incomplete
  int wait_status = 0;   ///< as waitpid(2) says
};

/// Runs `work`, which does not throw, in a copy of this process, which has one thread, and returns what
/// `work` returns there. A copy that has not ended after `seconds` is killed. Absent if there can be no copy.
std::optional<ChildAnswer> answer_of_child(const std::function<std::string()>& work, double seconds);

/// Replaces this process by a program, found in $PATH. Throws Error where it cannot be started.
[[noreturn]] void become_command(std::span<const std::string> words);

}  // namespace cxtrain
