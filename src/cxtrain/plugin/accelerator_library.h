#pragma once

#include "cxtrain/accelerator/accelerator.h"

namespace cxtrain {

/// Opens CUDA at the first call: libcxtrain_cuda.so beside this library, and with it LibTorch's CUDA half and
/// NCCL. They would cost a rank without a GPU 120 MB of memory and 0.2 to 0.5 s. The library stays open until
/// the process ends.
///
/// LibTorch checks once in a process whether it has CUDA, and keeps the result. A program that uses tensors
/// before its first Trainer must call this function first. Throws ConfigError if the library is missing, is
/// not of this build, cannot be loaded, or is opened too late.
Accelerator& open_accelerator();

/// Result of `cxtrain_accelerator_v1`, the function that libcxtrain_cuda.so exports.
struct AcceleratorEntry {
  const char* fingerprint = nullptr;  ///< CXTRAIN_FINGERPRINT of the library; both come from one build
  Accelerator& (*open)() = nullptr;   ///< the accelerator lives as long as the process
};

}  // namespace cxtrain

extern "C" const cxtrain::AcceleratorEntry* cxtrain_accelerator_v1();
