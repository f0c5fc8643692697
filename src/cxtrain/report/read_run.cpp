#include "cxtrain/report/read_run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

/// "2026-11-24 10:00:00.000000", in local time.
std::string time_text(double seconds_since_1970) {
  constexpr double kYear3000 = 32'503'680'000;
  if (!(seconds_since_1970 >= 0 && seconds_since_1970 < kYear3000)) seconds_since_1970 = 0;
  const std::lldiv_t time = std::lldiv(std::llround(seconds_since_1970 * 1e6), 1'000'000);
  return date_text(static_cast<double>(time.quot), "%Y-%m-%d %H:%M:%S") +
         formatted(".%06d", static_cast<int>(time.rem));
}

const char* severity_of(RunEvent::Kind kind) {
  using Kind = RunEvent::Kind;
  if (kind == Kind::error) return "error";
  return kind == Kind::warning || kind == Kind::straggler ? "warning" : "detail";
}

}  // namespace

bool is_file_of_run(Filesystem& files, const std::string& path) {
  const auto file = files.own_status(path), folder = files.status(parent_directory(path));
  return file && folder && file->is_file &&
         (file->owner == folder->owner || belongs_to_this_user(files, path));
}

std::string text_of_run_file(Filesystem& files, const std::string& path, std::uint64_t most) {
  try {
    return is_file_of_run(files, path) ? read_whole_file(files, path, most) : std::string();
  } catch (const FileError&) {
    return {};
  }
}

std::string read_saved_rows(Filesystem& files, const std::string& path, std::int64_t bytes,
                            std::size_t (*whole)(std::string_view)) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
  std::string rows;
  if (is_file_of_run(files, path)) {
    const std::unique_ptr<ReadableFile> file = files.open(path);
    rows.resize(std::min<std::size_t>(wanted, file->size()));
    rows.resize(file->read(0, rows));
  }
  rows.resize(whole(rows));
  if (rows.size() < wanted) warn_of_missing_rows(path);
  return rows;
}

std::size_t whole_lines(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

void warn_of_missing_rows(const std::string& path) {
  log_warning("'" + path +
              "' lacks rows that the training had written when its state was saved: has something deleted or "
              "changed the file, or has the machine crashed? The training continues without them");
}

LineReader::LineReader(const ReadableFile& file, std::uint64_t begin, std::uint64_t end)
    : file_(file), next_(begin), end_(std::min(end, file.size())) {
  if (begin == 0) return;
  --next_;  // the end of the line before
  skips_ = true;
}

bool LineReader::read_more() {
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 18;
  if (next_ >= end_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + static_cast<std::size_t>(std::min(kChunk, end_ - next_)));
  const std::size_t got = file_.read(next_, {buffer_.data() + before, buffer_.size() - before});
  buffer_.resize(before + got);
  next_ += got;
  if (got == 0) next_ = end_;  // the file has become shorter
  return got > 0;
}

bool LineReader::next(std::string_view& line) {
  std::size_t looked = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', looked);
    if (end != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, end - begin_);
      begin_ = looked = end + 1;
      if (!skips_) return true;
      skips_ = false;
      continue;
    }
    if (!skips_ && buffer_.size() - begin_ > kLongestLine) {
      skips_ = true;
      ++long_lines_;
    }
    if (skips_) begin_ = buffer_.size();
    looked = buffer_.size() - begin_;  // `read_more` moves what is left to the front
    if (!read_more()) return false;
  }
}

RunEventsRead read_run_events(Filesystem& files, const std::string& run, int rank, std::uint64_t most_bytes,
                              const std::function<void(const RunEvent&)>& take) {
  RunEventsRead result;
  const std::string path = run + "/" + events_file(rank);
  if (!is_file_of_run(files, path)) return result;
  result.found = true;
  const std::unique_ptr<ReadableFile> file = files.open(path);
  const std::uint64_t size = file->size();
  result.in_parts = size > most_bytes;
  LineReader lines(*file, result.in_parts ? size - most_bytes : 0, size);
  for (std::string_view line; lines.next(line);) {
    std::optional<RunEvent> event = parse_struct<RunEvent>(line);
    if (!event) {
      ++result.damaged;
      continue;
    }
    if (!std::isfinite(event->time)) event->time = 0;
    take(*event);
  }
  result.damaged += lines.long_lines();
  return result;
}

std::string line_of(const RunEvent& event) {
  return time_text(event.time) + " rank " + std::to_string(event.rank) + " " + severity_of(event.event) +
         ": " + event.text.substr(0, event.text.find('\n'));
}

}  // namespace cxtrain
