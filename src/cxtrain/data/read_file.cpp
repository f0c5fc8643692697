#include "cxtrain/data/read_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

struct CloseGz {
  void operator()(gzFile_s* file) const noexcept { gzclose(file); }
};

std::string system_error(int error) { return error != 0 ? std::strerror(error) : "out of memory"; }

}  // namespace

std::string read_file(const std::string& path) {
  FileDescriptor descriptor = open_regular_file(path);
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGz> file(gzdopen(descriptor.get(), "rb"));
  if (!file) throw DataError("cannot read '" + path + "': " + system_error(errno) + "; check the path");
  descriptor.release();  // gzclose closes it
  gzbuffer(file.get(), 1U << 18);

  std::string content;
  const auto most = static_cast<std::size_t>(total_memory_bytes() / 2);
  for (;;) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const int got = gzread(file.get(), content.data() + before, static_cast<unsigned>(kPiece));
    content.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < static_cast<int>(kPiece)) break;
    if (content.size() > most) {
      throw DataError("'" + path + "' has more than " + std::to_string(most >> 20) +
                      " MiB, half of this machine's memory, and is read as a whole; use a smaller file");
    }
  }
  int error = Z_OK;
  const char* message = gzerror(file.get(), &error);
  if (error == Z_BUF_ERROR) {
    throw DataError("'" + path + "' is truncated: its gzip stream ends early; fetch it again");
  }
  if (error != Z_OK) {
    throw DataError("'" + path + "' is damaged: " +
                    (error == Z_ERRNO ? system_error(errno) : std::string(message)) + "; fetch it again");
  }
  return content;
}

}  // namespace cxtrain
