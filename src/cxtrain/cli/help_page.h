#pragma once

#include <cstddef>
#include <string>

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

/// The help of a subcommand with a grammar of its own (cli/file_commands.h), for this terminal: usage, then
/// what the subcommand does.
HelpPage page_of_command(const std::string& name, const std::string& about);

/// Columns of the terminal behind standard output, within 60 and 120; 100 if it is no terminal.
std::size_t help_width();

}  // namespace cxtrain
