#include "cxtrain/report/line_reader.h"

#include <algorithm>

namespace cxtrain {

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

}  // namespace cxtrain
