#include "cxtrain/data/read_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

struct CloseGz {
  void operator()(gzFile_s* file) const noexcept { gzclose(file); }
};

std::string system_error(int error) { return error != 0 ? std::strerror(error) : "out of memory"; }

}  // namespace

std::string read_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
    throw DataError("cannot read '" + path + "': it is a directory; name a file");
  }
  errno = 0;
  const std::unique_ptr<gzFile_s, CloseGz> file(gzopen(path.c_str(), "rb"));
  if (!file) throw DataError("cannot read '" + path + "': " + system_error(errno) + "; check the path");
  gzbuffer(file.get(), 1U << 18);

  std::string content;
  for (;;) {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const int got = gzread(file.get(), content.data() + before, static_cast<unsigned>(kPiece));
    content.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < static_cast<int>(kPiece)) break;
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
