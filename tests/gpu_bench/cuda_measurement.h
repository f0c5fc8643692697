#pragma once

#include <string>
#include <vector>

#include "gpu_bench/measurement.h"

/// What only CUDA can show. In builds without its headers all of it throws NotMeasurable.
namespace cxtrain::gpu_bench {

/// Each device that CUDA shows, as its run time knows it: name, UUID ("GPU-..."), memory, compute capability.
/// Throws NotMeasurable where there is none.
nlohmann::json cuda_devices();

/// What the host spends on an NCCL call of a blocking communicator and of a non-blocking one: a group of a
/// send and a receive to oneself, which NCCL takes no short cut for.
Figures measure_nccl_calls(const Setup& setup);

/// Trains as `cxtrain_mpi fit` does with these arguments and counts the places at which the host waits for
/// the device, from the sixth step to the last but one.
Figures count_waits(const std::vector<std::string>& arguments);

}  // namespace cxtrain::gpu_bench
