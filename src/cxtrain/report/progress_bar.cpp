#include "cxtrain/report/progress_bar.h"

#include <algorithm>
#include <limits>

namespace cxtrain {
namespace {

constexpr std::string_view kWipe = "\r\x1b[K";
constexpr double kLastLineSeconds = 0.1;
constexpr auto kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

ProgressBar::ProgressBar(const Clock& clock, Output output, Metrics metrics, ProgressBarOptions options)
    : clock_(clock),
      output_(std::move(output)),
      metrics_(std::move(metrics)),
      options_(std::move(options)),
      next_last_line_(std::numeric_limits<double>::lowest()),
      next_look_(kNever) {}

ProgressBar::~ProgressBar() {
  if (!on_screen_) return;
  try {
    output_("\n");
  } catch (...) {  // nobody is left to tell
  }
}

int ProgressBar::columns() const {
  const int all = options_.columns ? options_.columns() : 0;
  return all > 1 ? all - 1 : 0;  // a character in the last column would wrap the line on some terminals
}

void ProgressBar::start(std::string label, std::int64_t total, std::int64_t samples_per_step,
                        std::int64_t done, std::optional<double> since) noexcept {
  finish();
  const double now = clock_.now();
  progress_ = {std::move(label), done, done, total, 0, samples_per_step};
  active_ = true;
  started_ = since.value_or(now);
  last_look_time_ = now;
  last_look_done_ = done;
  next_look_ = done;
  next_draw_ =
      now + (options_.columns && options_.columns() > 0 ? options_.redraw_seconds : options_.line_seconds);
}

void ProgressBar::look_at_clock() noexcept {
  if (!active_) return;
  const double now = clock_.now();
  // A clock costs as much as everything else here: with short steps, only every few of them look at it.
  constexpr double kLooksPerSecond = 40;
  constexpr std::int64_t kMaxSkipped = 8;
  const double steps = static_cast<double>(progress_.done - last_look_done_);
  const double seconds = std::max(now - last_look_time_, 1e-9);
  const double skip = std::clamp(steps / seconds / kLooksPerSecond, 1.0, static_cast<double>(kMaxSkipped));
  next_look_ = progress_.done + static_cast<std::int64_t>(skip);
  last_look_time_ = now;
  last_look_done_ = progress_.done;
  if (now >= next_draw_) draw(now, false);
}

void ProgressBar::draw(double now, bool last) noexcept try {
  const int width = columns();
  progress_.elapsed = now - started_;
  const std::string line = progress_line(
      progress_, metrics_ ? metrics_(last) : std::vector<std::pair<std::string, double>>{}, width);
  if (width > 0) {
    output_(std::string(kWipe) + line + (last ? "\n" : ""));
    on_screen_ = !last;
    next_draw_ = now + options_.redraw_seconds;
  } else {
    output_(line + "\n");
    next_draw_ = now + options_.line_seconds;
    if (last) next_last_line_ = now + kLastLineSeconds;
  }
} catch (...) {
  // Progress is a courtesy: whatever keeps it from being shown must not end a training.
  next_draw_ = now + options_.line_seconds;
}

void ProgressBar::finish(bool always) noexcept {
  if (!active_) return;
  active_ = false;
  next_look_ = kNever;
  if (options_.leave) {
    const double now = clock_.now();
    if (always || columns() > 0 || now >= next_last_line_) draw(now, true);
  } else {
    clear();
  }
}

void ProgressBar::clear() noexcept {
  if (!on_screen_) return;
  on_screen_ = false;
  try {
    output_(kWipe);
  } catch (...) {  // as in draw
  }
}

}  // namespace cxtrain
