#include "cxtrain/base/filesystem.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace cxtrain {
namespace {

const char* cure(int reason) {
  switch (reason) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "make room on its disk, raise the quota, or name a folder on another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "name a folder that you may write to";
    case EIO:
    case ESTALE:
      return "its disk or file server has a fault: look at the system's log, and try another disk";
    case ENOENT:
      return "check the folder, and whether something has deleted it";
    default:
      return "check the folder, its permissions and the space on its disk";
  }
}

}  // namespace

FileError::FileError(const std::string& operation, const std::string& path, int reason)
    : Error(ExitCode::failure, "cannot " + operation + " '" + path +
                                   "': " + std::generic_category().message(reason) + "; " + cure(reason)),
      path_(path),
      reason_(reason, std::generic_category()) {}

void write_atomically(Filesystem& files, const std::string& path, std::string_view content) {
  const std::string part = path + ".part." + std::to_string(getpid());
  try {
    const std::unique_ptr<WritableFile> file = files.create(part);
    file->write(content);
    file->sync();
    file->close();
    files.rename(part, path);
  } catch (const FileError& error) {
    try {
      files.remove(part);
    } catch (const FileError&) {
      // It could not be created, or a disk that fails cannot be tidied up.
    }
    throw FileError("write", path, error.reason().value());
  }
  files.sync_directory(parent_directory(path));
}

std::string read_whole_file(Filesystem& files, const std::string& path) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  std::string content(file->size(), '\0');
  content.resize(file->read(0, content));
  return content;
}

void make_directories(Filesystem& files, const std::string& path) {
  const auto is_directory = [&] {
    const std::optional<Filesystem::Status> status = files.status(path);
    return status && status->is_directory;
  };
  if (is_directory()) return;
  const std::string parent = parent_directory(path);
  if (parent != path) make_directories(files, parent);
  if (files.make_directory(path)) {
    files.sync_directory(parent);
  } else if (!is_directory()) {
    throw FileError("create the folder", path, ENOTDIR);
  }
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace cxtrain
