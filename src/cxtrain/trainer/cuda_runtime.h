#pragma once

namespace cxtrain {

/// The CUDA that this build runs on, 1000 * major + 10 * minor; 0 without CUDA. `Hardware::cuda_runtime`
/// wants it: the rooms that make a plan see no headers of CUDA's.
int cuda_runtime_version();

}  // namespace cxtrain
