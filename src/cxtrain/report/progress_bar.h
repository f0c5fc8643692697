#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/report/progress_line.h"

namespace cxtrain {

struct ProgressBarOptions {
  /// Columns of the terminal, asked at each drawing; empty or 0: the output is not a terminal.
  std::function<int()> columns = {};
  double redraw_seconds = 0.1;  ///< on a terminal, between two drawings
  double line_seconds = 5;      ///< elsewhere, between two lines
  bool leave = true;            ///< whether a finished bar stays on the screen
};

/// Progress through a known or unknown number of steps. On a terminal one line drawn over again, elsewhere a
/// plain line every few seconds. Never throws: what cannot be shown is not shown. Used by one thread.
class ProgressBar {
 public:
  using Output = std::function<void(std::string_view)>;
  /// `last`: for a finished bar, which shows the last values, while others show what is known.
  using Metrics = std::function<std::vector<std::pair<std::string, double>>(bool last)>;

  /// `metrics` is asked for only when something is drawn. `clock` outlives the bar.
  ProgressBar(const Clock& clock, Output output, Metrics metrics, ProgressBarOptions options = {});
  /// Ends the line, so that whatever is printed next begins a new one.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// A new bar of `total` steps (negative: unknown), of which `done` were taken before the clock showed
  /// `since` (default: now). `samples_per_step` counts all ranks.
  void start(std::string label, std::int64_t total, std::int64_t samples_per_step = 0, std::int64_t done = 0,
             std::optional<double> since = {}) noexcept;

  /// Called each step; a few nanoseconds when it is not time to draw.
  void update(std::int64_t done) noexcept {
    progress_.done = done;
    if (done >= next_look_) look_at_clock();
  }

  /// Draws the final state and leaves the line. Without a terminal, stages of milliseconds do not each get a
  /// line, but ten a second and the one that is finished `always`: an mpirun that ends a job no longer reads,
  /// and ranks that print without an end would wait for it.
  void finish(bool always = false) noexcept;

  /// Wipes the line from the terminal, for something else to be printed; the next drawing brings it back.
  void clear() noexcept;

 private:
  void look_at_clock() noexcept;
  void draw(double now, bool last) noexcept;
  int columns() const;

  const Clock& clock_;
  Output output_;
  Metrics metrics_;
  ProgressBarOptions options_;
  ProgressLine progress_;
  bool active_ = false;
  bool on_screen_ = false;
  double started_ = 0;
  double next_draw_ = 0;
  double last_look_time_ = 0;
  std::int64_t last_look_done_ = 0;
  double next_last_line_ = 0;   ///< without a terminal, when a finished stage may have a line again
  std::int64_t next_look_ = 0;  ///< the step at which the clock is read next
};

}  // namespace cxtrain
