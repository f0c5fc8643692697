#include "end_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace {

/// By the variables with which the dynamic linker, CUDA and NVTX are told of tools: Nsight,
/// compute-sanitizer, Score-P, HPCToolkit and the like.
bool has_tool() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  constexpr std::array kVariables{"LD_PRELOAD", "LD_AUDIT", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"};
  return std::ranges::any_of(kVariables, [](const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr && *value != '\0';
  });
#endif
}

}  // namespace

void end_process(int status) {
  if (has_tool()) std::exit(status);
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  _exit(status);
}
