#pragma once

#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "support/temp_dir.h"

/// The driver's libraries as tests want them: fake_nvml.cpp, which plays CUDA's driver as well.
namespace cxtrain::test {

inline constexpr const char* kFakeDriver = CXTRAIN_TEST_PLUGIN_DIR "/fake_nvml.so";

/// The environment has this variable while it lives: the fake driver does as some of them say.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

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
