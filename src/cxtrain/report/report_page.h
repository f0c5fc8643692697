#pragma once

#include <span>
#include <string>

#include "cxtrain/report/run_record.h"

namespace cxtrain {

/// Runs side by side as one HTML page, which loads nothing: curves as SVG, tables, and config.yaml with the
/// differences between the runs. All texts are escaped. `written_at`: seconds since 1970.
std::string report_page(std::span<const RunRecord> runs, double written_at);

}  // namespace cxtrain
