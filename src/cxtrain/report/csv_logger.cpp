#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/config/values.h"
#include "cxtrain/report/file_loggers.h"
#include "cxtrain/report/metric_rows.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {
namespace {

/// Only names may need quotes; values are numbers.
std::string quote(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == std::string::npos) return name;
  std::string quoted = "\"";
  for (const char c : name) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

constexpr const char* kCsv = "/metrics.csv";

/// When a run goes on, its table is read as a whole.
bool is_too_large(Filesystem& files, const std::string& path) {
  return is_file_of_run(files, path) && files.status(path)->size > kLargestWholeFile;
}

/// What is in the file so far; nothing where there is none, or more than can be read.
std::istringstream rows_in(Filesystem& files, const std::string& path) {
  const bool readable = is_file_of_run(files, path) && !is_too_large(files, path);
  return std::istringstream(readable ? read_whole_file(files, path) : std::string());
}

}  // namespace

CsvLogger::CsvLogger(Filesystem& files, const std::string& directory)
    : files_(files), path_(directory + kCsv) {
  make_way();
  open();
}

/// A run of months may have a table that cannot be read again: the table stays beside a new one.
void CsvLogger::make_way() {
  if (!is_too_large(files_, path_)) return;
  std::string other = path_ + ".large";
  for (int i = 1; files_.own_status(other); ++i) other = path_ + ".large." + std::to_string(i);
  log_warning("'" + path_ + "' has more than 1 GiB: its rows stay in '" + other +
              "', and a new table begins");
  files_.rename(path_, other);
}

void CsvLogger::open() {
  std::istringstream rows = rows_in(files_, path_);
  std::string header;
  std::getline(rows, header);
  columns_ = header.empty() ? std::vector<std::string>() : split_csv_line(header);
  rows_before_ = 0;
  for (std::string line; std::getline(rows, line);) ++rows_before_;
  file_ = std::make_unique<AppendFile>(files_, path_);
}

void CsvLogger::log_hyperparams(const Hyperparameters& hparams) {
  write_atomically(files_, path_.substr(0, path_.rfind('/')) + "/hparams.yaml", to_yaml(hparams));
}

void CsvLogger::log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) {
  std::map<std::string, std::string> row{{"step", std::to_string(step)}, {"epoch", std::to_string(epoch)}};
  for (const auto& [name, value] : metrics) row.insert_or_assign(name, format_real(value));

  if (!file_) open();
  std::vector<std::string> unknown;
  for (const auto& [name, value] : row) {
    if (!std::ranges::binary_search(columns_, name)) unknown.push_back(name);
  }
  if (!unknown.empty()) add_columns(unknown);

  const auto cell_of = [&](const std::string& column) {
    const auto cell = row.find(column);
    return cell == row.end() ? std::string() : cell->second;
  };
  file_->append(joined(columns_, ",", cell_of) + "\n");
}

void CsvLogger::flush() {
  if (file_) file_->flush();
}

void CsvLogger::add_columns(std::span<const std::string> keys) {
  file_->flush();
  make_way();
  std::vector<std::string> columns = columns_;
  columns.insert(columns.end(), keys.begin(), keys.end());
  std::ranges::sort(columns);
  begin_with(path_, columns, std::numeric_limits<std::int64_t>::max());
}

/// Gives the file these columns, and the first rows of `source`, which may be the file itself; a row that was
/// cut short is none. Returns how many rows these are.
std::int64_t CsvLogger::begin_with(const std::string& source, const std::vector<std::string>& columns,
                                   std::int64_t most_rows) {
  std::istringstream lines = rows_in(files_, source);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> old = split_csv_line(line);
  std::string content = columns.empty() ? std::string() : joined(columns, ",", quote) + "\n";
  std::int64_t rows = 0;
  while (rows < most_rows && std::getline(lines, line) && !lines.eof()) {
    const std::vector<std::string> cells = split_csv_line(line);
    const auto cell_of = [&](const std::string& column) {
      const auto before = static_cast<std::size_t>(std::ranges::find(old, column) - old.begin());
      return before < cells.size() ? cells[before] : std::string();
    };
    content += joined(columns, ",", cell_of) + "\n";
    ++rows;
  }
  file_.reset();  // it holds the file that is about to be replaced
  write_atomically(files_, path_, content);
  open();
  return rows;
}

void CsvLogger::on_save_checkpoint(StateDict& state) {
  if (!file_) open();
  state.set("columns", columns_.empty() ? std::string() : joined(columns_, ",", quote) + "\n");
  state.set("rows", rows_before_ + file_->appends_written());
}

void CsvLogger::on_load_checkpoint(const StateDict& state, const RunFolder& from) {
  if (from.path.empty()) return;
  const std::string& header = state.text("columns");
  const std::vector<std::string> columns =
      header.empty() ? std::vector<std::string>() : split_csv_line(header.substr(0, header.size() - 1));
  const std::string source = from.path + kCsv;
  const std::int64_t rows = state.integer("rows");
  if (begin_with(source, columns, rows) < rows) warn_of_missing_rows(source);
}

}  // namespace cxtrain
