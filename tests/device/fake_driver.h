#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "support/environment_variable.h"
#include "support/temp_dir.h"

/// The driver's libraries as tests want them: fake_nvml.cpp, which plays CUDA's driver as well, and does as
/// variables of the environment say.
namespace cxtrain::test {

inline constexpr const char* kFakeDriver = CXTRAIN_TEST_PLUGIN_DIR "/fake_nvml.so";

/// The fake driver as an old one that lacks these functions: a copy in `dir` that has them under other names.
/// Returns the copy's path.
inline std::string driver_without(std::initializer_list<std::string> functions, const TempDir& dir) {
  std::string library = slurp(kFakeDriver);
  for (const std::string& function : functions) {
    std::size_t at = library.find(function);
    if (at == std::string::npos) throw std::runtime_error("the fake driver has no " + function);
    for (; at != std::string::npos; at = library.find(function, at)) library[at] = '_';
  }
  return dir.write("old_driver.so", library);
}

}  // namespace cxtrain::test
