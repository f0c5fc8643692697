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

std::size_t help_width() {
  const int columns = terminal_columns(STDOUT_FILENO);
  return columns == 0 ? 100 : static_cast<std::size_t>(std::clamp(columns, 60, 120));
}

}  // namespace cxtrain
