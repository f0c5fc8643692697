#pragma once

#include <string>
#include <vector>

#include "cxtrain/config/values.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {

/// What somebody else does with a GPU, or why it cannot be used: "2 processes, 40210 MiB of memory used".
/// Empty: it is free. A GPU is occupied by a compute process, by more than 512 MiB of memory in use (a CUDA
/// context in a container whose processes are hidden takes as much; a desktop does not), by more than 10 %
/// utilisation, or by the compute mode `prohibited`.
std::string occupied_by(const Gpu& gpu);

/// The indices into `visible` of the first `wanted` GPUs that are free (0: of all that are, one at least), or
/// a sentence that names the occupied ones of this node.
Parsed<std::vector<int>> pick_free_gpus(const std::vector<Gpu>& visible, int wanted,
                                        const std::string& hostname);

}  // namespace cxtrain
