#include "cxtrain/report/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace cxtrain {

int terminal_columns(int file_descriptor) {
  const char* kind = std::getenv("TERM");
  if (isatty(file_descriptor) == 0 || kind == nullptr || std::string_view(kind) == "dumb") return 0;
  winsize size{};
  const bool known = ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

namespace {

/// Whether the first of the variables that say the encoding of characters (POSIX) says UTF-8.
bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string locale = value;
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

/// The terminal behind the parent's stderr; none if that is no terminal, or another user's.
FileDescriptor open_terminal_of_parent() {
  const std::string path = "/proc/" + std::to_string(getppid()) + "/fd/2";
  struct stat status {};
  // To open a FIFO would wait for its reader.
  if (stat(path.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return FileDescriptor();
  FileDescriptor opened(open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  return opened && isatty(opened.get()) != 0 ? std::move(opened) : FileDescriptor();
}

}  // namespace

int drawing_columns(int file_descriptor) { return locale_is_utf8() ? terminal_columns(file_descriptor) : 0; }

TerminalOutput::TerminalOutput(bool launched) {
  if (launched && isatty(STDERR_FILENO) == 0) terminal_ = open_terminal_of_parent();
}

void TerminalOutput::write(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor(), text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace cxtrain
