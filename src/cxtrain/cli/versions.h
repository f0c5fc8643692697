#pragma once

#include <string>
#include <vector>

namespace cxtrain {

/// "cxtrain 0.1.0 (LibTorch 2.11.0, ...)".
std::string version_line();
/// What was compiled in and what is there now, a line each: LibTorch, MPI, CUDA, NCCL, the plugin ABI.
std::vector<std::string> version_lines();

}  // namespace cxtrain
