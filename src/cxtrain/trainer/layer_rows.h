#pragma once

#include <vector>

#include "cxtrain/report/model_summary.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// The direct children of the module for its summary (Lightning's max_depth = 1), and its own parameters as a
/// row.
std::vector<LayerRow> layer_rows(const Module& module);

}  // namespace cxtrain
