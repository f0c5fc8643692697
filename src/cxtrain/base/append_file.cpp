#include "cxtrain/base/append_file.h"

#include <utility>

namespace cxtrain {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 16;

}  // namespace

AppendFile::AppendFile(Filesystem& files, std::string path)
    : path_(std::move(path)), file_(files.append_to(path_)) {}

AppendFile::~AppendFile() {
  try {
    flush();
  } catch (...) {
    // Said in the header: lost.
  }
}

void AppendFile::append(std::string_view bytes) {
  buffer_ += bytes;
  ++buffered_;
  if (buffer_.size() >= kBuffer) flush();
}

void AppendFile::flush() {
  if (buffer_.empty()) return;
  const std::string bytes = std::exchange(buffer_, {});
  const std::int64_t appends = std::exchange(buffered_, 0);
  cut_back();
  whole_ = file_->size();  // a deleted file throws: nobody would see what is written
  try {
    file_->write(bytes);
    whole_.reset();
    written_ += appends;
  } catch (const FileError&) {
    try {
      cut_back();
    } catch (const FileError&) {
      // Tried again before anything else is written.
    }
    throw;
  }
}

void AppendFile::cut(std::uint64_t size) {
  file_->truncate(size);
  whole_.reset();
}

/// A row that was written in part is taken back: it would spoil the one that follows it.
void AppendFile::cut_back() {
  if (!whole_) return;
  file_->truncate(*whole_);
  whole_.reset();
}

}  // namespace cxtrain
