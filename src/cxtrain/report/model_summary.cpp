#include "cxtrain/report/model_summary.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string megabytes(std::int64_t bytes) { return formatted("%.3f", static_cast<double>(bytes) / 1e6); }

}  // namespace

std::string human_count(std::int64_t count) {
  static constexpr std::array<const char*, 5> kUnits{" ", "K", "M", "B", "T"};
  auto value = static_cast<double>(count);
  std::size_t unit = 0;
  // 999.95 and more would round to 1000.0 of its unit.
  while (unit + 1 < kUnits.size() && value >= (unit == 0 ? 1000 : 999.95)) {
    value /= 1000;
    ++unit;
  }
  return formatted(unit == 0 || value >= 100 ? "%.0f" : "%.1f", value) + " " + kUnits[unit];
}

std::string model_summary(std::span<const LayerRow> rows) {
  std::int64_t params = 0, trainable = 0, bytes = 0;
  std::vector<std::array<std::string, 5>> cells{{"", "Name", "Type", "Params", "Size (MB)"}};
  for (const LayerRow& row : rows) {
    params += row.params;
    trainable += row.trainable < 0 ? row.params : row.trainable;
    bytes += row.bytes;
    cells.push_back({std::to_string(cells.size() - 1), row.name, row.type, human_count(row.params),
                     megabytes(row.bytes)});
  }

  std::array<std::size_t, 5> widths{};
  for (const auto& line : cells) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::vector<std::string> lines;
  for (const auto& line : cells) {
    std::string text;
    for (std::size_t i = 0; i < widths.size(); ++i) text += (i > 0 ? " | " : "") + left(line[i], widths[i]);
    lines.push_back(text);
  }
  const std::string rule(lines.front().size(), '-');

  std::string summary = lines.front() + "\n" + rule + "\n";
  for (std::size_t i = 1; i < lines.size(); ++i) summary += lines[i] + "\n";
  summary += rule + "\n";
  const auto total = [&](const std::string& value, std::string_view what) {
    summary += left(value, 10);
    summary += what;
    summary += '\n';
  };
  total(human_count(trainable), "Trainable params");
  total(human_count(params - trainable), "Non-trainable params");
  total(human_count(params), "Total params");
  total(megabytes(bytes), "Total estimated model params size (MB)");
  return summary;
}

}  // namespace cxtrain
