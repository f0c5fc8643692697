#include "cxtrain/trainer/trace_file.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;

/// A file of events, each followed by a comma and the end of the line.
std::string part_path(const std::string& folder, int rank) {
  return folder + "/trace_rank_" + std::to_string(rank) + ".part";
}

std::string quoted(const std::string& text) { return text_of_json(nlohmann::json(text)); }

/// Names a process or a thread of the trace, or sorts it.
std::string metadata_event(const char* what, int rank, std::int64_t track, const std::string& argument) {
  return std::string(R"({"ph":"M","name":")") + what + R"(","pid":)" + std::to_string(rank) + R"(,"tid":)" +
         std::to_string(track) + R"(,"args":{)" + argument + "}}";
}

/// Compresses what is written to it.
class GzipWriter {
 public:
  explicit GzipWriter(WritableFile& file) : file_(file), compressed_(kChunk) {
    constexpr int kGzip = 16, kLevel = 6, kMemory = 8;
    if (deflateInit2(&stream_, kLevel, Z_DEFLATED, MAX_WBITS + kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~GzipWriter() { deflateEnd(&stream_); }
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  void write(std::string_view bytes) { deflate_all(bytes, Z_NO_FLUSH); }
  void finish() { deflate_all({}, Z_FINISH); }

 private:
  void deflate_all(std::string_view bytes, int flush) {
    // zlib reads its input only.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
      stream_.avail_out = static_cast<uInt>(compressed_.size());
      deflate(&stream_, flush);
      file_.write({compressed_.data(), compressed_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  WritableFile& file_;
  std::vector<char> compressed_;
  z_stream stream_{};
};

void copy_part(Filesystem& files, const std::string& path, GzipWriter& out) {
  const std::unique_ptr<ReadableFile> part = files.open(path);
  std::vector<char> chunk(kChunk);
  std::uint64_t offset = 0;
  while (const std::size_t read = part->read(offset, chunk)) {
    out.write({chunk.data(), read});
    offset += read;
  }
}

void write_trace(Filesystem& files, const std::string& folder, std::span<const TracePart> parts,
                 GzipWriter& out) {
  double clock_error = 0;
  for (const TracePart& part : parts) clock_error = std::max(clock_error, part.clock_error);
  out.write(formatted(R"({"displayTimeUnit":"ms","otherData":{"clock_error_us":%.3f},"traceEvents":[)"
                      "\n",
                      1e6 * clock_error));
  for (const TracePart& part : parts) {
    if (part.events == 0) continue;
    const std::string name = "rank " + std::to_string(part.rank) + " on " + part.host;
    out.write(metadata_event("process_name", part.rank, 0, R"("name":)" + quoted(name)) + ",\n");
    copy_part(files, part_path(folder, part.rank), out);
  }
  const char* separator = "";
  for (const TracePart& part : parts) {
    const std::string index = R"("sort_index":)" + std::to_string(part.rank);
    out.write(std::exchange(separator, ",\n") + metadata_event("process_sort_index", part.rank, 0, index));
  }
  out.write("\n]}\n");
  out.finish();
}

}  // namespace

TracePartFile::TracePartFile(Filesystem& files, const std::string& folder, int rank)
    : rank_(rank), file_(files.create(part_path(folder, rank))) {}

void TracePartFile::add(const TraceEvent& event) {
  add_line(R"({"ph":"X","cat":")" + std::string(event.category) + R"(","name":)" + quoted(event.name) +
           formatted(R"(,"pid":%d,"tid":%lld,"ts":%.3f,"dur":%.3f})", rank_,
                     static_cast<long long>(event.track), event.begin, event.duration));
}

void TracePartFile::name_track(std::int64_t track, const std::string& name) {
  add_line(metadata_event("thread_name", rank_, track, R"("name":)" + quoted(name)));
}

void TracePartFile::add_line(const std::string& json) {
  buffer_ += json + ",\n";
  if (buffer_.size() < kChunk) return;
  file_->write(buffer_);
  buffer_.clear();
}

void TracePartFile::close() {
  file_->write(buffer_);
  file_->close();
}

void merge_trace(Filesystem& files, const std::string& folder, std::span<const TracePart> parts) {
  replace_file(files, folder + "/" + kTraceFile, [&](WritableFile& file) {
    GzipWriter out(file);
    write_trace(files, folder, parts, out);
  });
  for (const TracePart& part : parts) {
    if (part.events > 0) files.remove(part_path(folder, part.rank));
  }
}

}  // namespace cxtrain
