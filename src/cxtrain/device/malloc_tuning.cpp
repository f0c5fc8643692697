#include "cxtrain/device/malloc_tuning.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unistd.h>

#include <string_view>
#include <vector>

namespace cxtrain {
namespace {

/// The file of the library that `malloc` was linked to at load time; empty when unknown.
std::string library_of_malloc() {
  Dl_info info{};
  void* function = dlsym(RTLD_DEFAULT, "malloc");
  if (function == nullptr || dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace

std::string reason_not_to_tune_malloc(std::span<const std::string> environment,
                                      const std::string& malloc_library) {
  for (const std::string& entry : environment) {
    if (entry.starts_with("MALLOC_") || entry.starts_with("GLIBC_TUNABLES=")) {
      return entry.substr(0, entry.find('=')) + " is set";
    }
  }
  const std::string_view path = malloc_library;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.starts_with("libc.so") || file.starts_with("libc-")) return "";
  return "malloc comes from " + (file.empty() ? "an unknown library" : std::string(file));
}

bool tune_malloc() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    environment.emplace_back(*entry);
  if (!reason_not_to_tune_malloc(environment, library_of_malloc()).empty()) return false;
  constexpr int kGrowth = 64 << 20;
  constexpr int kNever = -1;  // mallopt(3): disables trimming
  return mallopt(M_MMAP_MAX, 0) == 1 && mallopt(M_TRIM_THRESHOLD, kNever) == 1 &&
         mallopt(M_TOP_PAD, kGrowth) == 1;
}

}  // namespace cxtrain
