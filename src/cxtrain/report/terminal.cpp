#include "cxtrain/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace cxtrain {

int terminal_columns(int file_descriptor) {
  const char* kind = std::getenv("TERM");
  if (isatty(file_descriptor) == 0 || kind == nullptr || std::string_view(kind) == "dumb") return 0;
  winsize size{};
  const bool known = ioctl(file_descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace cxtrain
