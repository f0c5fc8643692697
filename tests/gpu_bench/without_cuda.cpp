#include "gpu_bench/cuda_measurement.h"

/// In the place of the files that need CUDA's headers, where there are none.
namespace cxtrain::gpu_bench {
namespace {

[[noreturn]] void refuse() { throw NotMeasurable("built without the headers of CUDA and NCCL"); }

}  // namespace

nlohmann::json cuda_devices() { refuse(); }
Figures measure_nccl_calls(const Setup&) { refuse(); }
Figures count_waits(const std::vector<std::string>&) { refuse(); }

}  // namespace cxtrain::gpu_bench
