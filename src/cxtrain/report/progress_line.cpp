#include "cxtrain/report/progress_line.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

/// How much of "540/1200 [00:12<00:15, 43.1 it/s, 11.0k samples/s]" is shown.
enum class Counts { steps, times, rate, samples };

std::string counts(const ProgressLine& p, Counts shown) {
  const double steps = static_cast<double>(p.done - p.first);
  const bool measured = p.elapsed > 0 && steps > 0;
  const double rate = measured ? steps / p.elapsed : 0;
  std::string text = std::to_string(p.done) + "/" + (p.total < 0 ? "?" : std::to_string(p.total));
  if (shown == Counts::steps) return text;
  text += " [" + format_elapsed(p.elapsed) + "<";
  text += p.total >= 0 && measured
              ? format_elapsed(static_cast<double>(std::max<std::int64_t>(p.total - p.done, 0)) / rate)
              : "--:--";
  if (shown >= Counts::rate) text += ", " + (measured ? format_rate(rate) : std::string("?")) + " it/s";
  if (shown == Counts::samples && p.samples_per_step > 0 && measured) {
    text += ", " + format_rate(rate * static_cast<double>(p.samples_per_step)) + " samples/s";
  }
  return text + "]";
}

std::string bar(double fraction, std::size_t width) {
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(width));
  return "|" + std::string(filled, '#') + std::string(width - filled, ' ') + "|";
}

}  // namespace

std::string progress_line(const ProgressLine& progress,
                          std::span<const std::pair<std::string, double>> metrics, int columns) {
  constexpr std::size_t kMinBar = 5, kMaxBar = 30, kBarEnds = 3;  // "|", "|" and a blank
  const double fraction = progress.total > 0
                              ? static_cast<double>(progress.done) / static_cast<double>(progress.total)
                              : (progress.total == 0 ? 1.0 : 0.0);
  std::string head = progress.label;
  if (progress.total >= 0)
    head += formatted(" %3d%%", static_cast<int>(std::clamp(fraction, 0.0, 1.0) * 100));
  head += ' ';
  std::string all;
  for (const auto& [name, value] : metrics) all += " " + name + "=" + format_metric(value);
  if (columns <= 0) return head + counts(progress, Counts::samples) + all;

  // Metrics are what people look at: rates and times give way to them.
  const auto width = static_cast<std::size_t>(columns);
  std::string tail;
  for (const Counts shown : {Counts::samples, Counts::rate, Counts::times, Counts::steps}) {
    tail = counts(progress, shown);
    if (head.size() + tail.size() + all.size() <= width) break;
  }
  std::string shown;
  for (const auto& [name, value] : metrics) {
    const std::string next = shown + " " + name + "=" + format_metric(value);
    if (head.size() + tail.size() + next.size() > width) break;
    shown = next;
  }
  const std::size_t text = head.size() + tail.size() + shown.size();
  std::string line = head;
  if (progress.total >= 0 && shown == all && text + kMinBar + kBarEnds <= width) {
    line += bar(fraction, std::min(width - text - kBarEnds, kMaxBar)) + " ";
  }
  return (line + tail + shown).substr(0, width);
}

std::string format_elapsed(double seconds) {
  constexpr double kLongest = std::numeric_limits<int>::max();
  const int total =
      std::isfinite(seconds) ? static_cast<int>(std::lround(std::clamp(seconds, 0.0, kLongest))) : 0;
  const int hours = total / 3600, minutes = total / 60 % 60;
  return hours > 0 ? formatted("%d:%02d:%02d", hours, minutes, total % 60)
                   : formatted("%02d:%02d", minutes, total % 60);
}

std::string format_rate(double per_second) {
  std::string suffix;
  for (const char* next : {"k", "M", "G"}) {
    if (per_second < 999.5) break;
    per_second /= 1000;
    suffix = next;
  }
  constexpr double kLeastOfTwoDecimals = 0.0995;
  if (per_second > 0 && per_second < kLeastOfTwoDecimals) return formatted("%.2g", per_second);
  const int decimals = per_second < 9.995 ? 2 : per_second < 99.95 ? 1 : 0;
  return formatted("%.*f", decimals, per_second) + suffix;
}

std::string format_metric(double value) {
  const double size = std::abs(value);
  if (value != 0 && (size < 1e-3 || size >= 1e6)) return formatted("%.3g", value);
  return formatted("%.4g", value);
}

}  // namespace cxtrain
