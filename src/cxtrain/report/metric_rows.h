#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/base/filesystem.h"

/// The rows of metrics.jsonl, or of metrics.csv where that is missing, as a run leaves them: whole, cut
/// short, or while it writes them.
namespace cxtrain {

struct MetricRow {
  std::int64_t step = 0, epoch = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< NaN for a value that is not finite
};

struct MetricRowsRead {
  std::string file;          ///< its name; empty: the run has no file of metrics that may be read
  std::int64_t damaged = 0;  ///< lines that are no rows
  bool cut_short = false;    ///< the last line lacks its end: it is being written, or its writer was killed
  bool in_parts = false;     ///< the file is larger than was to be read
};

/// Calls `take` for each row of the run in a folder, in the order of the file. Of a file of more than
/// `most_bytes`, parts that are spread evenly over it are read, with both of its ends. Throws FileError.
MetricRowsRead read_metric_rows(Filesystem& files, const std::string& run, std::uint64_t most_bytes,
                                const std::function<void(const MetricRow&)>& take);

/// The cells of a line of metrics.csv; a name may stand in quotes.
std::vector<std::string> split_csv_line(std::string_view line);

}  // namespace cxtrain
