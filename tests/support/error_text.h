#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "cxtrain/base/error.h"

/// Errors as the program prints them. Tests compare the code and the values of a message, not its words: the
/// words are compared in tests/cli/messages_test.cpp only.
namespace cxtrain::test {

/// "[out-of-range]", as it ends a printed error.
inline std::string code(MessageCode kind) { return with_code("", kind).substr(1); }

/// Returns the error that `work` throws, as the program prints it; empty if `work` throws none. An error of
/// another class than `Kind` fails the test.
template <class Kind = std::exception>
std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Kind& error) {
    return printed(error);
  }
  return "";
}

}  // namespace cxtrain::test
