#include <unistd.h>

#include <climits>
#include <string_view>

#include "cxtrain/cli/main.h"
#include "end_process.h"

namespace {

/// Without a current folder, LibTorch's mathematics library ends the process while it is loaded, with a
/// message about another file. This runs before any library's own initialisation, and uses none but the C
/// library.
void require_current_folder(int, char**, char**) {
  char path[PATH_MAX];
  if (getcwd(path, sizeof path) != nullptr) return;
  constexpr std::string_view kMessage =
      "error: the current folder cannot be used (it has been deleted, or may not be read); change to "
      "another [file-failed]\n";
  static_cast<void>(!write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  _exit(2);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = require_current_folder;

}  // namespace

int main(int argc, char** argv) { end_process(cxtrain::run_main(argc, argv)); }
