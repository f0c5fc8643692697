#pragma once

#include <string>

namespace cxtrain {

/// Why a file cannot be a shared library of this machine, as far as its headers tell: "is a FIFO", "is cut
/// short: ...". Empty: nothing against it. The dynamic loader itself believes the headers, and a file that is
/// shorter than they say ends the process.
std::string why_no_shared_library(const std::string& path);

}  // namespace cxtrain
