#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// Help on a terminal: headings, paragraphs, and entries whose explanation has a column of its own.
class HelpPage {
 public:
  /// `width`: columns of a line.
  explicit HelpPage(std::size_t width) : width_(width) {}

  /// A line as it is.
  void line(const std::string& text = "") { text_ += text + '\n'; }
  /// An empty line, then the heading.
  void heading(const std::string& text) { text_ += '\n' + text + '\n'; }
  /// Words in lines that begin with `indent` blanks.
  void paragraph(const std::string& words, std::size_t indent = 0);
  /// "  left      help", the help wrapped in its column.
  void entry(const std::string& left, const std::string& help);

  const std::string& text() const { return text_; }

 private:
  /// Appends words to the line, and wraps them into further lines that begin with `indent` blanks.
  void wrap(std::string line, const std::string& words, std::size_t indent);

  std::size_t width_;
  std::string text_;
};

/// The help of a subcommand with a grammar of its own (cli/subcommands.h), for this terminal: usage, then
/// what the subcommand does.
HelpPage page_of_command(const std::string& name, const std::string& about);

/// The words after such a subcommand, sorted.
struct CommandWords {
  std::vector<std::string> paths;
  std::set<std::string> flags;                ///< "--json"
  std::map<std::string, std::string> values;  ///< of options: "--out"
  bool help = false;

  /// Returns the value of an option; empty if it is not there.
  std::string value(const std::string& option) const;
};

/// Sorts the words. An option is followed by the name of a file. Appends a problem for each other word that
/// begins with a hyphen, and for each option without its file. `command` and `usage` are for messages:
/// "checkpoint diff", "checkpoint diff PATH PATH [--json]".
CommandWords sort_words(std::span<const std::string> words, const std::string& command,
                        const std::string& usage, const std::set<std::string>& flags,
                        const std::set<std::string>& options, std::vector<Problem>& problems);

/// Columns of the terminal behind standard output, within 60 and 120; 100 if it is no terminal.
std::size_t help_width();

}  // namespace cxtrain
