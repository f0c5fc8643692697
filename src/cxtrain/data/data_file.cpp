#include "cxtrain/data/data_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/process.h"
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
  if (!file)
    throw DataError("cannot read '" + path + "': " + system_error(errno) + "; check the path",
                    MessageCode::file_failed);
  struct stat info {};
  const auto size = fstat(descriptor.get(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
  descriptor.release();  // gzclose closes it
  gzbuffer(file.get(), 1U << 18);

  std::string content;
  const auto most = static_cast<std::size_t>(total_memory_bytes() / 2);
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  // A string that grows on its way leaves memory behind that stays the process's.
  content.reserve(std::min(size, most) + kPiece);
  for (;;) {
    const std::size_t before = content.size();
    content.resize(before + kPiece);
    const int got = gzread(file.get(), content.data() + before, static_cast<unsigned>(kPiece));
    content.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got < static_cast<int>(kPiece)) break;
    if (content.size() > most) {
      throw DataError("'" + path + "' has more than " + std::to_string(most >> 20) +
                          " MiB, half of this machine's memory, and is read as a whole; use a smaller file",
                      MessageCode::out_of_memory);
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

namespace fs = std::filesystem;

std::vector<std::string> data_folders(const std::string& program,
                                      const std::optional<std::string>& environment) {
  constexpr int kFoldersAbove = 5;
  std::vector<std::string> folders;
  if (environment && !environment->empty()) folders.push_back(*environment);
  const fs::path beside = fs::path(program).parent_path();
  folders.push_back((beside.parent_path() / "share" / "cxtrain" / "data").string());
  // A build tree lies in a checkout. Above a program that is installed, anybody's folder could lie, as in
  // /tmp.
  fs::path folder = beside;
  for (int i = 0; i <= kFoldersAbove && folder != folder.parent_path(); ++i) {
    if (belongs_to_this_user(real_filesystem(), (folder / "CMakeLists.txt").string())) {
      folders.push_back((folder / ".deps" / "data").string());
      break;
    }
    folder = folder.parent_path();
  }
  return folders;
}

std::string find_data_file(const std::string& name, std::span<const std::string> folders) {
  std::string tried;
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path.string();
    tried += "\n  " + path.string();
  }
  throw DataError(
      "the data file '" + name + "' was asked for and found in none of these folders:" + tried +
          "\nName the file with --data.path, or its folder in the environment variable CXTRAIN_DATA.",
      MessageCode::file_failed);
}

std::string find_data_file(const std::string& name) {
  const char* environment = std::getenv("CXTRAIN_DATA");
  return find_data_file(
      name, data_folders(program_path(),
                         environment != nullptr ? std::optional<std::string>(environment) : std::nullopt));
}

}  // namespace cxtrain
