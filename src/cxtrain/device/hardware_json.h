#pragma once

#include <string>
#include <string_view>

#include "cxtrain/device/hardware.h"

/// The hardware file: what `cxtrain_mpi info --hardware --json` prints and `plan --hardware FILE` reads.
///
///     {"nodes":[{"hostname":"n1","cores":32,"gpus":[{"index":0,"uuid":"GPU-a","name":"NVIDIA H100",
///      "memory_total_mib":81559,"memory_used_mib":4,"utilization":0,"compute_mode":"default","processes":0}]}],
///      "env":{"CUDA_VISIBLE_DEVICES":"2,3"}}
namespace cxtrain {

/// Reads it. `nodes` (one at least) and each GPU's `index` are needed, the rest has defaults; fields beyond
/// these are ignored. Throws DataError naming `file` and the field, or the line where it is no JSON.
Hardware parse_hardware(std::string_view text, const std::string& file);

/// The file's JSON on one line.
std::string to_json(const Hardware& hardware);

}  // namespace cxtrain
