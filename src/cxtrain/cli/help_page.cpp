#include "cxtrain/cli/help_page.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cxtrain/cli/subcommands.h"
#include "cxtrain/report/terminal.h"

namespace cxtrain {
namespace {

/// The column of explanations: a third of the line.
std::size_t help_column(std::size_t width) { return std::clamp<std::size_t>(width / 3, 24, 36); }

}  // namespace

void HelpPage::paragraph(const std::string& words, std::size_t indent) {
  wrap(std::string(indent, ' '), words, indent);
}

void HelpPage::entry(const std::string& left, const std::string& help) {
  const std::size_t column = help_column(width_);
  std::string line = "  " + left;
  if (line.size() + 2 > column) {
    text_ += line + '\n';
    line.clear();
  }
  line.resize(column, ' ');
  wrap(std::move(line), help, column);
}

void HelpPage::wrap(std::string line, const std::string& words, std::size_t indent) {
  std::istringstream text(words);
  bool first = true;
  for (std::string word; text >> word; first = false) {
    if (!first && line.size() + 1 + word.size() > width_) {
      text_ += line + '\n';
      line.assign(indent, ' ');
      line += word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  text_ += line + '\n';
}

HelpPage page_of_command(const std::string& name, const std::string& about) {
  HelpPage page(help_width());
  page.line(usage_of(name));
  page.line();
  page.paragraph(about);
  return page;
}

std::string CommandWords::value(const std::string& option) const {
  const auto found = values.find(option);
  return found == values.end() ? std::string() : found->second;
}

CommandWords sort_words(std::span<const std::string> words, const std::string& command,
                        const std::string& usage, const std::set<std::string>& flags,
                        const std::set<std::string>& options, std::vector<Problem>& problems) {
  CommandWords sorted;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    if (word == "--help" || word == "-h") {
      sorted.help = true;
    } else if (!word.starts_with('-')) {
      sorted.paths.push_back(word);
    } else if (flags.contains(word)) {
      sorted.flags.insert(word);
    } else if (!options.contains(option)) {
      problems.push_back(
          {word, "is not an option of " + command, "usage: " + usage, MessageCode::unknown_option});
    } else if (equals != std::string::npos && equals + 1 < word.size()) {
      sorted.values[option] = word.substr(equals + 1);
    } else if (equals == std::string::npos && i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      sorted.values[option] = words[++i];
    } else {
      problems.push_back(
          {option, "a value is missing", "write " + option + " FILE", MessageCode::missing_value});
    }
  }
  return sorted;
}

std::size_t help_width() {
  const int columns = terminal_columns(STDOUT_FILENO);
  return columns == 0 ? 100 : static_cast<std::size_t>(std::clamp(columns, 60, 120));
}

}  // namespace cxtrain
