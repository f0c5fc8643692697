#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace cxtrain {

/// What one line of progress says.
struct ProgressLine {
  std::string label;       ///< "Epoch 2/10"
  std::int64_t first = 0;  ///< steps done before `elapsed` began (a resumed epoch)
  std::int64_t done = 0;
  std::int64_t total = -1;            ///< negative: unknown
  double elapsed = 0;                 ///< seconds
  std::int64_t samples_per_step = 0;  ///< over all ranks; 0: not shown
};

/// The line, no longer than `columns`:
///
///     Epoch 2/10  45% |#########     | 540/1200 [00:12<00:15, 43.1 it/s, 11.0k samples/s] train_loss=0.123
///
/// The bar takes what space there is, up to 30 columns. Where there is too little for all metrics, the bar
/// goes first, then samples/s, it/s and the times, then metrics, from the last. `columns` 0: any length, and
/// no bar (for a log file).
std::string progress_line(const ProgressLine& progress,
                          std::span<const std::pair<std::string, double>> metrics, int columns);

/// Pieces of it: "00:12", "1:02:03"; "950", "11.0k", "2.50M"; four significant digits.
std::string format_elapsed(double seconds);
std::string format_rate(double per_second);
std::string format_metric(double value);

}  // namespace cxtrain
