#include "cxtrain/report/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/report/axis.h"
#include "cxtrain/report/progress_line.h"

namespace cxtrain {
namespace {

// In units of the drawing, which are about a pixel.
constexpr double kWidth = 600, kHeight = 250;
constexpr double kLeft = 52, kRight = 532, kTop = 12, kBottom = 212;
constexpr int kMaxTicksX = 8, kMaxTicksY = 6;

std::string decimal(double value, int digits = 1) { return formatted("%.*f", digits, value); }

/// A coordinate of a curve's point. The report's script computes the values under the mouse from these
/// coordinates.
std::string precise(double value) { return decimal(value, 3); }

/// Where the values of a chart lie on the drawing.
struct Place {
  Axis x, y;
  double left(double value) const { return kLeft + x.share(value) * (kRight - kLeft); }
  double top(double value) const {
    return kBottom - std::clamp(y.share(value), -0.02, 1.02) * (kBottom - kTop);
  }
};

struct Extent {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  void take(double value) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  bool empty() const { return lowest > highest; }
};

// ------------------------------------------------------------------ curves

using Line = std::vector<Curve::Place>;

/// One point for each piece that has a finite value.
Line means_of(const Curve& curve) {
  Line line;
  for (const CurvePiece& piece : curve.pieces()) {
    if (piece.count > 0) line.push_back({(piece.x + piece.last_x) / 2, piece.mean});
  }
  return line;
}

/// How far a point lies from the middle of its neighbours, as a median.
double noise_of(std::span<const Curve::Place> line, const Axis& axis) {
  std::vector<double> distances;
  for (std::size_t i = 1; i + 1 < line.size(); ++i)
    distances.push_back(
        std::abs(axis.share(line[i].y) - (axis.share(line[i - 1].y) + axis.share(line[i + 1].y)) / 2));
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

/// Means over a window that is centred, and cut at both ends; of logarithms on a logarithmic axis.
Line smoothed(std::span<const Curve::Place> line, const Axis& axis) {
  const auto half = static_cast<std::ptrdiff_t>(std::max<std::size_t>(2, line.size() / 40));
  const auto size = static_cast<std::ptrdiff_t>(line.size());
  const auto at = [&](std::ptrdiff_t i) {
    const double y = line[static_cast<std::size_t>(i)].y;
    return axis.is_log() ? std::log(std::max(y, axis.lowest())) : y;
  };
  std::vector<double> sums(line.size() + 1, 0);
  for (std::ptrdiff_t i = 0; i < size; ++i)
    sums[static_cast<std::size_t>(i) + 1] = sums[static_cast<std::size_t>(i)] + at(i);
  Line means;
  for (std::ptrdiff_t i = 0; i < size; ++i) {
    const std::ptrdiff_t first = std::max<std::ptrdiff_t>(0, i - half), end = std::min(size, i + half + 1);
    const double sum = sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(first)];
    const double mean = sum / static_cast<double>(end - first);
    means.push_back({line[static_cast<std::size_t>(i)].x, axis.is_log() ? std::exp(mean) : mean});
  }
  return means;
}

std::string path_of(std::span<const Curve::Place> line, const Place& place) {
  std::string path;
  for (const Curve::Place& point : line)
    path += (path.empty() ? "M" : "L") + precise(place.left(point.x)) + " " + precise(place.top(point.y));
  return path;
}

/// The area between the lowest and the highest values of pieces.
std::string band_of(const Curve& curve, const Place& place) {
  std::string path, back;
  for (const CurvePiece& piece : curve.pieces()) {
    if (piece.count == 0) continue;
    const std::string x = precise(place.left((piece.x + piece.last_x) / 2));
    path += (path.empty() ? "M" : "L") + x + " " + precise(place.top(piece.highest));
    back.insert(0, "L" + x + " " + precise(place.top(piece.lowest)));
  }
  return path + back + "Z";
}

/// The curve of a series, and the value at its end.
class SeriesWriter {
 public:
  SeriesWriter(const Chart& chart, const Place& place, std::ostream& out)
      : chart_(chart), place_(place), out_(out) {}

  void write(const ChartSeries& series) {
    const Curve& curve = *series.curve;
    const Line line = means_of(curve);
    write_not_finite(series);
    if (line.empty()) return;
    constexpr std::size_t kFewPoints = 40, kFewestToSmooth = 60;
    constexpr double kNoisy = 0.012;
    const bool merged = curve.points() > static_cast<std::int64_t>(curve.pieces().size());
    if (merged)
      out_ << "<path class=\"band\" d=\"" << band_of(curve, place_) << "\" " << style(series) << "/>";
    const bool smooth =
        chart_.may_smooth && line.size() >= kFewestToSmooth && noise_of(line, place_.y) > kNoisy;
    if (smooth && !merged) write_line(series, line, "raw");
    write_line(series, smooth ? smoothed(line, place_.y) : line, series.dashed ? "line dashed" : "line");
    if (line.size() <= kFewPoints) {
      for (const Curve::Place& point : line)
        out_ << "<circle class=\"dot\" r=\"2.4\" cx=\"" << precise(place_.left(point.x)) << "\" cy=\""
             << precise(place_.top(point.y)) << "\" " << style(series) << "/>";
    }
  }

 private:
  static std::string style(const ChartSeries& series) { return "style=\"--c:" + series.color + "\""; }

  void write_line(const ChartSeries& series, std::span<const Curve::Place> line, const char* kind) {
    out_ << "<path class=\"" << kind << "\" data-n=\"" << escape_html(series.name) << "\" d=\""
         << path_of(line, place_) << "\" " << style(series) << "/>";
  }

  void write_not_finite(const ChartSeries& series) {
    if (series.curve->not_finite() == 0) return;
    for (const CurvePiece& piece : series.curve->pieces()) {
      if (piece.not_finite == 0) continue;
      const std::string x = decimal(place_.left(piece.x));
      out_ << "<path class=\"nan\" d=\"M" << x << " " << kTop << "v7\" " << style(series) << "><title>"
           << escape_html(series.name) << " is not finite at step " << std::to_string(std::llround(piece.x))
           << "</title></path>";
    }
  }

  const Chart& chart_;
  const Place& place_;
  std::ostream& out_;
};

// ------------------------------------------------------------------ around the curves

void write_grid(const Chart& chart, const Place& place, std::ostream& out) {
  for (const Axis::Tick& tick : place.y.ticks(kMaxTicksY)) {
    const double y = place.top(tick.value);
    out << "<path class=\"grid\" d=\"M" << kLeft << " " << decimal(y) << "H" << kRight << "\"/>"
        << "<text class=\"tick\" text-anchor=\"end\" x=\"" << kLeft - 8 << "\" y=\"" << decimal(y + 3.5)
        << "\">" << tick.text << "</text>";
  }
  out << "<path class=\"axis\" d=\"M" << kLeft << " " << kBottom << "H" << kRight << "\"/>";
  std::vector<Axis::Tick> ticks = place.x.ticks(kMaxTicksX);
  // There are no half steps; of a logarithmic axis, whole decades are written.
  std::erase_if(ticks, [](const Axis::Tick& tick) { return tick.value != std::round(tick.value); });
  for (Axis::Tick& tick : ticks) {
    if (chart.log_x) tick.text = axis_number(std::pow(10, tick.value));
    out << "<text class=\"tick\" text-anchor=\"middle\" x=\"" << decimal(place.left(tick.value)) << "\" y=\""
        << kBottom + 20 << "\">" << tick.text << "</text>";
  }
  out << "<text class=\"tick\" text-anchor=\"end\" x=\"" << kRight << "\" y=\"" << kBottom + 36 << "\">"
      << escape_html(chart.x_title) << "</text>";
  if (place.y.is_log())
    out << "<text class=\"tick\" x=\"" << kLeft << "\" y=\"" << kBottom + 36 << "\">logarithmic</text>";
}

/// Marks that would lie on one another are drawn once.
void write_marks(const Chart& chart, const Place& place, std::ostream& out) {
  constexpr double kApart = 3;
  // A chart has the marks of the first run, then those of the second run.
  std::vector<ChartMark> marks = chart.marks;
  std::ranges::stable_sort(marks, {}, &ChartMark::x);
  for (const ChartMark::Kind kind :
       {ChartMark::Kind::checkpoint, ChartMark::Kind::straggler, ChartMark::Kind::restart}) {
    double last = -1;
    for (const ChartMark& mark : marks) {
      if (mark.kind != kind || mark.x < place.x.lowest() || mark.x > place.x.highest()) continue;
      const double x = place.left(mark.x);
      if (last >= 0 && x < last + kApart) continue;
      last = x;
      const std::string style = "\" style=\"--c:" + mark.color + "\"><title>" + escape_html(mark.text);
      if (kind == ChartMark::Kind::restart)
        out << "<path class=\"restart\" d=\"M" << decimal(x) << " " << kTop << "V" << kBottom << style;
      else if (kind == ChartMark::Kind::straggler)
        out << "<path class=\"straggler\" d=\"M" << decimal(x - 4) << " " << kTop << "h8l-4 7Z" << style;
      else
        out << "<path class=\"checkpoint\" d=\"M" << decimal(x) << " " << kBottom + 1.5 << "l3 5h-6Z"
            << style;
      out << "</title></path>";
    }
  }
}

/// The values at the right ends of the curves, moved apart where they would overlap.
void write_last_values(const Chart& chart, const Place& place, std::ostream& out) {
  struct Label {
    double y;
    const ChartSeries* series;
  };
  std::vector<Label> labels;
  for (const ChartSeries& series : chart.series) {
    if (series.curve->has_values()) labels.push_back({place.top(series.curve->last().y), &series});
  }
  constexpr double kApart = 13;
  constexpr std::size_t kMaxLabels = 14;
  if (labels.size() > kMaxLabels) return;
  std::ranges::sort(labels, {}, &Label::y);
  double last = kTop - kApart;
  for (Label& label : labels) last = label.y = std::max(label.y, last + kApart);
  double next = kBottom + kApart;
  for (std::size_t i = labels.size(); i-- > 0;) next = labels[i].y = std::min(labels[i].y, next - kApart);
  for (const Label& label : labels) {
    out << "<text class=\"value\" x=\"" << kRight + 7 << "\" y=\"" << decimal(label.y + 4)
        << "\" style=\"--c:" << label.series->color << "\">" << format_metric(label.series->curve->last().y)
        << "</text>";
  }
}

void write_line_at(const Chart& chart, const Place& place, std::ostream& out) {
  if (!chart.line_at || *chart.line_at < place.x.lowest() || *chart.line_at > place.x.highest()) return;
  const double x = place.left(*chart.line_at);
  const bool left_of_it = x > (kLeft + kRight) / 2;
  out << "<path class=\"suggestion\" d=\"M" << decimal(x) << " " << kTop << "V" << kBottom << "\"/>"
      << "<text class=\"label\" text-anchor=\"" << (left_of_it ? "end" : "start") << "\" x=\""
      << decimal(left_of_it ? x - 6 : x + 6) << "\" y=\"" << kTop + 10 << "\">"
      << escape_html(chart.line_text) << "</text>";
}

std::optional<Place> place_of(const Chart& chart) {
  Extent x, y;
  for (const ChartSeries& series : chart.series) {
    for (const CurvePiece& piece : series.curve->pieces()) {
      x.take(piece.x);
      x.take(piece.last_x);
      if (piece.count == 0) continue;
      y.take(piece.lowest);
      y.take(piece.highest);
    }
  }
  if (y.empty()) return std::nullopt;
  if (chart.from_zero) y.take(0);
  // An axis of steps begins at 0 where that is near.
  constexpr double kNear = 0.1;
  if (!chart.log_x && x.lowest >= 0 && x.lowest < kNear * x.highest) x.lowest = 0;
  constexpr double kWide = 30, kTooWide = 1e100;
  const double ratio = y.lowest > 0 ? y.highest / y.lowest : 0;
  const bool log = chart.may_log && ratio >= kWide && ratio < kTooWide;
  Place place{Axis(x.lowest, x.highest, false), Axis(y.lowest, y.highest, log)};
  place.y.widen_to_ticks(kMaxTicksY);
  return place;
}

}  // namespace

std::string to_svg(const Chart& chart) {
  std::ostringstream out;
  const std::optional<Place> place = place_of(chart);
  out << "<svg class=\"chart\" viewBox=\"0 0 " << kWidth << " " << kHeight << "\" role=\"img\" aria-label=\""
      << escape_html(chart.title) << "\"";
  if (!place) {
    out << "><text class=\"tick\" text-anchor=\"middle\" x=\"" << kWidth / 2 << "\" y=\"" << kHeight / 2
        << "\">no finite value</text></svg>";
    return out.str();
  }
  out << " data-plot=\"" << kLeft << " " << kRight << " " << kTop << " " << kBottom << "\"";
  out.precision(17);
  // For the script that shows values under the mouse.
  out << " data-x=\"" << place->x.lowest() << " " << place->x.highest() << " " << (chart.log_x ? 1 : 0)
      << "\" data-y=\"" << place->y.lowest() << " " << place->y.highest() << " "
      << (place->y.is_log() ? 1 : 0) << "\">";
  out.precision(6);
  write_grid(chart, *place, out);
  write_marks(chart, *place, out);
  SeriesWriter writer(chart, *place, out);
  for (const ChartSeries& series : chart.series) writer.write(series);
  write_line_at(chart, *place, out);
  write_last_values(chart, *place, out);
  out << "</svg>";
  return out.str();
}

std::string figure(const Chart& chart, std::span<const ChartSeries> keys) {
  std::string text = "<figure><figcaption><b>" + escape_html(chart.title) + "</b>";
  if (!chart.unit.empty()) text += "<span class=\"unit\">" + escape_html(chart.unit) + "</span>";
  for (const ChartSeries& key : keys)
    text += "<span class=\"key\"><i" + std::string(key.dashed ? " class=\"d\"" : "") +
            " style=\"--c:" + key.color + "\"></i>" + escape_html(key.name) + "</span>";
  return text + "</figcaption>" + to_svg(chart) + "</figure>";
}

std::string escape_html(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::array kEntities{"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  std::string escaped;
  for (const char c : printable(text)) {
    const std::size_t special = kSpecial.find(c);
    if (special == std::string_view::npos)
      escaped += c;
    else
      escaped += kEntities[special];
  }
  return escaped;
}

}  // namespace cxtrain
