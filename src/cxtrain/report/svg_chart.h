#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/report/curve.h"

namespace cxtrain {

struct ChartSeries {
  std::string name;
  std::string color;  ///< of CSS: "var(--c0)"
  bool dashed = false;
  const Curve* curve = nullptr;
};

struct ChartMark {
  enum class Kind { checkpoint, restart, straggler };
  Kind kind = Kind::checkpoint;
  double x = 0;
  std::string color, text;
};

/// Curves over a common axis. Names and texts may be anything.
struct Chart {
  std::string title, unit, x_title = "step";
  bool log_x = false;      ///< the curves' x are log10 of what is written there
  bool may_smooth = true;  ///< whether a noisy curve is also drawn as moving means
  bool may_log = true;     ///< whether a wide range of positive values is drawn on a logarithmic axis
  bool from_zero = false;  ///< whether the axis of the values begins at 0
  std::vector<ChartSeries> series;
  std::vector<ChartMark> marks;
  std::optional<double> line_at;  ///< a vertical line, in the x of the curves
  std::string line_text;
};

/// The chart as an <svg> element that uses the page's classes and colours; one that says so where no curve
/// has a value.
std::string to_svg(const Chart& chart);

/// The chart as a <figure> element: title, unit, legend of `keys` (without their curves), drawing.
std::string figure(const Chart& chart, std::span<const ChartSeries> keys);

/// The text for HTML and XML, in an element or a quoted attribute: without characters that end either,
/// control characters, or bytes that are not UTF-8.
std::string escape_html(std::string_view text);

}  // namespace cxtrain
