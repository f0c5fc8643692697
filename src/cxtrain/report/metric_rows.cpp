#include "cxtrain/report/metric_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "cxtrain/config/values.h"
#include "cxtrain/report/read_run.h"

namespace cxtrain {
namespace {

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

/// Steps beyond it are no steps: a double holds all smaller integers.
constexpr std::int64_t kLastStep = std::int64_t{1} << 53;

/// Takes one flat object of numbers while it is parsed. Builds no tree, so that nesting does no harm.
class RowHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit RowHandler(MetricRow& row) : row_(row) {}

  bool null() override { return number(kNoNumber); }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t value) override { return integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= static_cast<number_unsigned_t>(kLastStep) ? integer(static_cast<std::int64_t>(value))
                                                              : number(static_cast<double>(value));
  }
  /// A metric that a model calls "step" or "epoch" stands in place of the logger's.
  bool number_float(number_float_t value, const string_t&) override {
    const bool is_place = name_ == "step" || name_ == "epoch";
    if (is_place && std::trunc(value) == value && std::abs(value) <= static_cast<double>(kLastStep))
      return integer(static_cast<std::int64_t>(value));
    return name_ == "epoch" || number(value);
  }
  bool string(string_t&) override { return false; }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return !std::exchange(inside_, true); }
  bool key(string_t& name) override {
    name_ = std::move(name);
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return false; }
  bool end_array() override { return false; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
  bool has_step() const { return has_step_; }

 private:
  bool integer(std::int64_t value) {
    if (name_ == "step") {
      row_.step = value;
      has_step_ = value >= 0 && value <= kLastStep;
      return has_step_;
    }
    if (name_ != "epoch") return number(static_cast<double>(value));
    row_.epoch = value;
    return true;
  }
  bool number(double value) {
    if (!inside_ || name_ == "step" || name_ == "epoch") return false;
    row_.metrics.emplace_back(std::move(name_), value);
    return true;
  }

  MetricRow& row_;
  std::string name_;
  bool inside_ = false, has_step_ = false;
};

/// Parts of a file, each read from its first whole line on.
std::vector<std::pair<std::uint64_t, std::uint64_t>> parts_of(std::uint64_t size, std::uint64_t most) {
  if (size <= most) return {{0, size}};
  constexpr std::uint64_t kParts = 64;
  const std::uint64_t each = std::max<std::uint64_t>(1, most / kParts);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
  for (std::uint64_t i = 0; i < kParts; ++i) {
    const std::uint64_t begin = (size - each) / (kParts - 1) * i;
    parts.emplace_back(begin, i + 1 == kParts ? size : begin + each);
  }
  return parts;
}

/// One row of metrics.jsonl; false where the line is something else.
bool parse_json_row(std::string_view line, MetricRow& row) {
  RowHandler handler(row);
  return nlohmann::json::sax_parse(line, &handler) && handler.has_step();
}

/// One row of metrics.csv, whose first line has these names.
bool parse_csv_row(std::string_view line, const std::vector<std::string>& names, MetricRow& row) {
  const std::vector<std::string> cells = split_csv_line(line);
  if (cells.size() != names.size()) return false;
  bool has_step = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (names[i] == "step") {
      const auto step = parse_integer(cells[i]);
      has_step = step && *step >= 0 && *step <= kLastStep;
      row.step = step.value_or(0);
    } else if (names[i] == "epoch") {
      row.epoch = parse_integer(cells[i]).value_or(0);
    } else if (!cells[i].empty()) {
      const auto value = parse_real(cells[i]);
      if (!value) return false;
      row.metrics.emplace_back(names[i], *value);
    }
  }
  return has_step;
}

void read_rows(const ReadableFile& file, bool is_csv, std::uint64_t most_bytes,
               const std::function<void(const MetricRow&)>& take, MetricRowsRead& result) {
  const std::uint64_t size = file.size();
  const auto parts = parts_of(size, most_bytes);
  result.in_parts = parts.size() > 1;
  std::string_view line;
  std::vector<std::string> names;
  if (is_csv) {
    LineReader head(file, 0, size);
    if (head.next(line)) names = split_csv_line(line);
  }
  MetricRow row;
  for (const auto& [begin, end] : parts) {
    LineReader lines(file, begin, end);
    if (is_csv && begin == 0) lines.next(line);
    while (lines.next(line)) {
      row.metrics.clear();
      row.epoch = 0;
      if (is_csv ? parse_csv_row(line, names, row) : parse_json_row(line, row)) {
        take(row);
      } else {
        ++result.damaged;
      }
    }
    result.damaged += lines.long_lines();
    result.cut_short = end >= size && lines.ends_in_line();
  }
}

}  // namespace

MetricRowsRead read_metric_rows(Filesystem& files, const std::string& run, std::uint64_t most_bytes,
                                const std::function<void(const MetricRow&)>& take) {
  MetricRowsRead result;
  for (const char* name : {"metrics.jsonl", "metrics.csv"}) {
    const std::string path = run + "/" + name;
    if (!is_file_of_run(files, path)) continue;
    const std::unique_ptr<ReadableFile> file = files.open(path);
    if (file->size() == 0) continue;
    result.file = name;
    read_rows(*file, std::string_view(name).ends_with(".csv"), most_bytes, take, result);
    break;
  }
  return result;
}

std::vector<std::string> split_csv_line(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace cxtrain
