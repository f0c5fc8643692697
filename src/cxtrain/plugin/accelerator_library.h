#pragma once

#include "cxtrain/accelerator/accelerator.h"

namespace cxtrain {

/// CUDA, opened when it is first asked for: libcxtrain_cuda.so beside this library, and with it LibTorch's
/// CUDA half and NCCL, which take a rank that has no GPU 120 MB of memory and 0.2 to 0.5 s for nothing. It
/// stays open until the process ends.
///
/// LibTorch asks once in a process whether it has CUDA, and keeps the answer: a program that works with
/// tensors before it makes its first Trainer calls this before that. Throws ConfigError where the library is
/// missing, is not of this build, cannot be loaded, or comes too late.
Accelerator& open_accelerator();

/// What libcxtrain_cuda.so exports as `cxtrain_accelerator_v1`, a function that returns it.
struct AcceleratorEntry {
  const char* fingerprint = nullptr;  ///< CXTRAIN_FINGERPRINT of the library: the two are built together
  Accelerator& (*open)() = nullptr;   ///< it lives as long as the process
};

}  // namespace cxtrain

extern "C" const cxtrain::AcceleratorEntry* cxtrain_accelerator_v1();
