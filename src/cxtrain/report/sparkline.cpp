#include "cxtrain/report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "cxtrain/report/metric_rows.h"
#include "cxtrain/report/progress_line.h"

namespace cxtrain {
namespace {

constexpr std::array<const char*, 8> kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/// The mean of the pieces in each column; a column without any has the one before it.
std::vector<double> columns_of(const Curve& curve, std::size_t columns) {
  const auto& pieces = curve.pieces();
  const double first = pieces.front().x, size = pieces.back().x - first;
  std::vector<std::optional<double>> sums(columns);
  std::vector<double> counts(columns, 0);
  for (const CurvePiece& piece : pieces) {
    if (piece.count == 0) continue;
    const double share = size > 0 ? (piece.x - first) / size : 0;
    const auto column = std::min(columns - 1, static_cast<std::size_t>(share * static_cast<double>(columns)));
    sums[column] = sums[column].value_or(0) + piece.mean;
    ++counts[column];
  }
  std::vector<double> means;
  for (std::size_t i = 0; i < columns; ++i) {
    if (sums[i])
      means.push_back(*sums[i] / counts[i]);
    else if (!means.empty())
      means.push_back(means.back());
  }
  return means;
}

}  // namespace

std::string sparkline(const Curve& curve, int columns) {
  if (!curve.has_values() || columns < 1) return {};
  const std::size_t most = std::min(static_cast<std::size_t>(columns), curve.pieces().size());
  std::vector<double> means = columns_of(curve, most);
  const auto [low, high] = std::ranges::minmax_element(means);
  constexpr double kWide = 30;
  if (*low > 0 && *high / *low >= kWide)
    std::transform(means.begin(), means.end(), means.begin(), [](double mean) { return std::log(mean); });
  const auto [lowest, highest] = std::ranges::minmax_element(means);
  const double from = *lowest, range = *highest - *lowest;
  std::string line;
  for (const double mean : means) {
    const double share = range > 0 ? (mean - from) / range : 0;
    line += kBlocks[std::min(kBlocks.size() - 1, static_cast<std::size_t>(share * kBlocks.size()))];
  }
  return line;
}

std::vector<std::string> sparklines_of_run(Filesystem& files, const std::string& run, int columns) {
  constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
  constexpr int kMaxColumns = 40;
  std::array<std::pair<std::string, Curve>, 2> curves{{{"train_loss", Curve()}, {"val_loss", Curve()}}};
  const auto take = [&curves](const MetricRow& row) {
    for (const auto& [name, value] : row.metrics) {
      for (auto& [wanted, curve] : curves) {
        if (name == wanted) curve.add(static_cast<double>(row.step), value);
      }
    }
  };
  try {
    read_metric_rows(files, run, kMaxBytes, take);
  } catch (const FileError&) {
    return {};
  }
  std::vector<std::string> lines;
  for (const auto& [name, curve] : curves) {
    if (!curve.has_values() || curve.pieces().size() < 2) continue;
    const auto first =
        std::ranges::find_if(curve.pieces(), [](const CurvePiece& piece) { return piece.count > 0; });
    const std::string values = "  " + format_metric(first->mean) + " to " + format_metric(curve.last().y) +
                               ", lowest " + format_metric(curve.lowest().y);
    const std::string head = name + std::string(12 - name.size(), ' ');
    const int left = columns - static_cast<int>(head.size() + values.size());
    const std::string line = sparkline(curve, std::min(left, kMaxColumns));
    if (!line.empty()) lines.push_back(head + line + values);
  }
  return lines;
}

}  // namespace cxtrain
