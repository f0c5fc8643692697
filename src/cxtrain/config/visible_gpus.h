#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/device/hardware.h"

namespace cxtrain {

/// The GPUs of a node that a process sees, in the order in which it numbers them: "cuda:0" is the first.
struct VisibleGpus {
  std::vector<Gpu> gpus;
  std::string ignored;  ///< the first entry that names no GPU and so ended the list; empty when there is none
};

/// CUDA's reading of CUDA_VISIBLE_DEVICES: physical indices, or UUIDs, or unambiguous beginnings of UUIDs,
/// separated by commas. The first entry that names no GPU (-1, too large, unknown, ambiguous) hides itself
/// and all that follow; an entry repeated hides everything. Absent: all GPUs; set but empty: none.
VisibleGpus visible_gpus(const std::vector<Gpu>& gpus,
                         const std::optional<std::string>& cuda_visible_devices);

/// The same for node `n`, with the variable from the hardware's `env`. None in a build without GPU support.
VisibleGpus visible_gpus(const Hardware& hardware, int n);

}  // namespace cxtrain
