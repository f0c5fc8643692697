#include "cxtrain/base/filesystem.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>

#include "cxtrain/base/file_descriptor.h"

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
    case ELOOP:
      return "a symbolic link is not followed here: name the file that the link leads to, or remove the link";
    case EOPNOTSUPP:
      return "only a file can be written here, not a device, a pipe or a socket: name another path";
    default:
      return "check the folder, its permissions and the space on its disk";
  }
}

/// Makes a system call again when a signal has interrupted it. A call that fails returns -1 and sets errno.
template <class SystemCall>
auto uninterrupted(SystemCall&& system_call) {
  auto result = system_call();
  while (result < 0 && errno == EINTR) result = system_call();
  return result;
}

void check(bool success, const char* operation, const std::string& path) {
  if (!success) throw FileError(operation, path, errno);
}

FileDescriptor open_file(const char* operation, const std::string& path, int flags, mode_t mode = 0666) {
  FileDescriptor file(
      uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, mode); }));
  check(static_cast<bool>(file), operation, path);
  return file;
}

struct stat status_of(const FileDescriptor& file, const std::string& path) {
  struct stat status {};
  check(fstat(file.get(), &status) == 0, "look at", path);
  return status;
}

/// A file or a device such as /dev/null. A pipe that nobody reads is not waited for.
FileDescriptor open_to_write(const std::string& path, int flags) {
  FileDescriptor file(uninterrupted([&] {
    return ::open(path.c_str(),
                  flags | O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY,
                  0666);
  }));
  if (!file && errno == ENXIO) errno = EOPNOTSUPP;
  check(static_cast<bool>(file), "open", path);
  const mode_t mode = status_of(file, path).st_mode;
  if (!S_ISREG(mode) && !S_ISCHR(mode)) throw FileError("open", path, EOPNOTSUPP);
  const int status = fcntl(file.get(), F_GETFL);
  check(status >= 0 && fcntl(file.get(), F_SETFL, status & ~O_NONBLOCK) == 0, "open", path);
  return file;
}

class DescriptorWriter final : public WritableFile {
 public:
  DescriptorWriter(std::string path, int flags)
      : path_(std::move(path)), file_(open_to_write(path_, flags)) {}

  void write(std::string_view bytes) override {
    const bool is_large = bytes.size() >= kLarge;
    if (is_large) bytes.remove_prefix(write_directly(bytes));
    while (!bytes.empty()) {
      const ssize_t written = uninterrupted([&] { return ::write(file_.get(), bytes.data(), bytes.size()); });
      check(written >= 0, "write", path_);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    // Where it fails, `sync` says so.
    if (is_large) sync_file_range(file_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }

  void sync() override {
    check(uninterrupted([&] { return fsync(file_.get()); }) == 0, "sync", path_);
  }

  std::uint64_t size() const override {
    const struct stat status = status_of(file_, path_);
    if (!S_ISREG(status.st_mode)) return 0;
    if (status.st_nlink == 0) throw FileError("write", path_, ENOENT);
    return static_cast<std::uint64_t>(status.st_size);
  }

  void truncate(std::uint64_t size) override {
    if (!S_ISREG(status_of(file_, path_).st_mode)) return;
    check(uninterrupted([&] { return ftruncate(file_.get(), static_cast<off_t>(size)); }) == 0, "cut", path_);
  }

  // Not made again: Linux has closed the descriptor also where a signal interrupted this.
  void close() override { check(::close(file_.release()) == 0 || errno == EINTR, "close", path_); }

 private:
  static constexpr std::size_t kLarge = std::size_t{256} << 10;
  /// What direct writing wants of memory, offset and size, on all disks of today.
  static constexpr std::size_t kBlock = 4096;

  /// Writes what it can of the first bytes from this memory to the disk, past the system's cache, and returns
  /// how many: that saves a copy of them, and the cache keeps what is read again. 0 where the memory or the
  /// file's end does not lie at a multiple of a block, or the file system has its reasons.
  std::size_t write_directly(std::string_view bytes) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kBlock == 0;
    if (!aligned || !direct_ || size() % kBlock != 0) return 0;
    const int flags = fcntl(file_.get(), F_GETFL);
    direct_ = flags >= 0 && is_local() && fcntl(file_.get(), F_SETFL, flags | O_DIRECT) == 0;
    if (!direct_) return 0;
    std::size_t done = 0, wanted = bytes.size() / kBlock * kBlock;
    while (done < wanted) {
      const ssize_t written =
          uninterrupted([&] { return ::write(file_.get(), bytes.data() + done, wanted - done); });
      // Whatever the reason is: it is the plain write's to tell, if it meets it.
      direct_ = written > 0 && static_cast<std::size_t>(written) % kBlock == 0;
      if (written > 0) done += static_cast<std::size_t>(written);
      if (!direct_) break;
    }
    check(fcntl(file_.get(), F_SETFL, flags) == 0, "write", path_);
    return done;
  }

  /// Network file systems do better when they gather writes.
  bool is_local() const {
    struct statfs disk {};
    return fstatfs(file_.get(), &disk) == 0 &&
           (disk.f_type == EXT4_SUPER_MAGIC || disk.f_type == XFS_SUPER_MAGIC);
  }

  std::string path_;
  FileDescriptor file_;
  bool direct_ = true;  ///< until it is known not to work
};

class DescriptorLock final : public FileLock {
 public:
  explicit DescriptorLock(FileDescriptor file) : file_(std::move(file)) {}
  bool share() override {
    return uninterrupted([&] { return flock(file_.get(), LOCK_SH | LOCK_NB); }) == 0;
  }

 private:
  FileDescriptor file_;
};

class DescriptorReader final : public ReadableFile {
 public:
  /// Where a pipe lies at `path`, its writer is not waited for.
  explicit DescriptorReader(std::string path)
      : path_(std::move(path)), file_(open_file("read", path_, O_RDONLY | O_NONBLOCK)) {
    if (S_ISDIR(status_of(file_, path_).st_mode)) throw FileError("read", path_, EISDIR);
  }

  std::uint64_t size() const override { return static_cast<std::uint64_t>(status_of(file_, path_).st_size); }

  std::size_t read(std::uint64_t offset, std::span<char> bytes) const override {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = uninterrupted([&] {
        return pread(file_.get(), bytes.data() + done, bytes.size() - done,
                     static_cast<off_t>(offset + done));
      });
      check(got >= 0, "read", path_);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  std::string path_;
  FileDescriptor file_;
};

}  // namespace

FileError::FileError(const std::string& operation, const std::string& path, int reason)
    : Error(ExitCode::failure, MessageCode::file_failed,
            "cannot " + operation + " '" + path + "': " + std::generic_category().message(reason) + "; " +
                cure(reason)),
      path_(path),
      reason_(reason, std::generic_category()) {}

namespace {

/// A name in the folder of `path`. The name contains random numbers, so that nobody can create a file of this
/// name first.
std::string name_of_part(const std::string& path) {
  std::random_device random;
  return path + ".part." + std::to_string(getpid()) + "." + std::to_string(random()) +
         std::to_string(random());
}

void require_replaceable(Filesystem& files, const std::string& path) {
  const std::optional<Filesystem::Status> old = files.own_status(path);
  if (!old || old->is_file) return;
  throw FileError("write", path, old->is_link ? ELOOP : old->is_directory ? EISDIR : EOPNOTSUPP);
}

/// `sync`: the function waits until the content is on the disk.
void write_part_and_rename(Filesystem& files, const std::string& path, bool sync,
                           const std::function<void(WritableFile&)>& write) {
  const std::string part = name_of_part(path);
  try {
    require_replaceable(files, path);
    const std::unique_ptr<WritableFile> file = files.create(part);
    write(*file);
    if (sync) file->sync();
    file->close();
    files.rename(part, path);
  } catch (const Error& error) {
    try {
      files.remove(part);
    } catch (const FileError&) {
      // It could not be created, or a disk that fails cannot be tidied up.
    }
    // `write` may also read other files.
    const auto* failed = dynamic_cast<const FileError*>(&error);
    const bool of_this = failed != nullptr && (failed->path() == part || failed->path() == path);
    if (of_this) throw FileError("write", path, failed->reason().value());
    throw;
  }
}

}  // namespace

void replace_file(Filesystem& files, const std::string& path,
                  const std::function<void(WritableFile&)>& write) {
  write_part_and_rename(files, path, /*sync=*/true, write);
  files.sync_directory(parent_directory(path));
}

void write_atomically(Filesystem& files, const std::string& path, std::string_view content) {
  replace_file(files, path, [content](WritableFile& file) { file.write(content); });
}

void write_at_once(Filesystem& files, const std::string& path, std::string_view content) {
  write_part_and_rename(files, path, /*sync=*/false, [content](WritableFile& file) { file.write(content); });
}

std::string read_whole_file(Filesystem& files, const std::string& path, std::uint64_t most) {
  const std::unique_ptr<ReadableFile> file = files.open(path);
  if (file->size() > most) throw FileError("read", path, EFBIG);
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

bool is_wrong_path(const FileError& error) {
  const int reason = error.reason().value();
  return reason == ELOOP || reason == ENAMETOOLONG || reason == ENOTDIR || reason == EISDIR;
}

bool belongs_to_this_user(Filesystem& files, const std::string& path) {
  const auto is_own = [](const std::optional<Filesystem::Status>& status) {
    return status && (status->owner == 0 || status->owner == geteuid());
  };
  return is_own(files.own_status(path)) && is_own(files.status(path));
}

std::string parent_directory(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::unique_ptr<WritableFile> RealFilesystem::create(const std::string& path) {
  return std::make_unique<DescriptorWriter>(path, O_TRUNC);
}

std::unique_ptr<WritableFile> RealFilesystem::append_to(const std::string& path) {
  return std::make_unique<DescriptorWriter>(path, 0);
}

std::unique_ptr<ReadableFile> RealFilesystem::open(const std::string& path) {
  return std::make_unique<DescriptorReader>(path);
}

void RealFilesystem::rename(const std::string& from, const std::string& to) {
  check(std::rename(from.c_str(), to.c_str()) == 0, "rename", from);
}

void RealFilesystem::link(const std::string& name, const std::string& path) {
  const std::string part = name_of_part(path);
  check(symlink(name.c_str(), part.c_str()) == 0, "create the link", path);
  if (std::rename(part.c_str(), path.c_str()) == 0) return;
  const int reason = errno;
  static_cast<void>(unlink(part.c_str()));
  throw FileError("create the link", path, reason);
}

void RealFilesystem::remove(const std::string& path) {
  check(std::remove(path.c_str()) == 0, "remove", path);
}

bool RealFilesystem::make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0777) == 0) return true;
  check(errno == EEXIST, "create the folder", path);
  return false;
}

std::vector<std::string> RealFilesystem::list(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) throw FileError("list", path, error.value());
  std::ranges::sort(names);
  return names;
}

void RealFilesystem::sync_directory(const std::string& path) {
  const FileDescriptor folder(
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!folder && errno == EACCES) return;  // one may be allowed to write into a folder, and not to read it
  check(static_cast<bool>(folder), "sync the folder", path);
  const bool synced = uninterrupted([&] { return fsync(folder.get()); }) == 0;
  check(synced || errno == EINVAL, "sync the folder", path);
}

std::unique_ptr<FileLock> RealFilesystem::try_lock(const std::string& path, LockKind kind) {
  const mode_t owners_only = 0600;
  FileDescriptor file = open_file("lock", path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, owners_only);
  const struct stat found = status_of(file, path);
  if (!S_ISREG(found.st_mode)) throw FileError("lock", path, EOPNOTSUPP);
  // An earlier version, or the user's umask, may have left a lock file that others can open.
  if ((found.st_mode & 07777) != owners_only && found.st_uid == geteuid())
    check(fchmod(file.get(), owners_only) == 0, "lock", path);
  const int operation = (kind == LockKind::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  if (uninterrupted([&] { return flock(file.get(), operation); }) == 0)
    return std::make_unique<DescriptorLock>(std::move(file));
  if (errno == EWOULDBLOCK) return nullptr;
  const bool has_none = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK || errno == EINVAL;
  throw FileError("lock", path, has_none ? ENOTSUP : errno);
}

namespace {

/// The status that a call of `stat` or `lstat` filled in; absent where the path does not exist.
std::optional<Filesystem::Status> found_status(int result, const struct stat& found,
                                               const std::string& path) {
  if (result != 0) {
    check(errno == ENOENT || errno == ENOTDIR, "look at", path);
    return std::nullopt;
  }
  const bool is_file = S_ISREG(found.st_mode);
  return Filesystem::Status{.is_directory = S_ISDIR(found.st_mode),
                            .size = is_file ? static_cast<std::uint64_t>(found.st_size) : 0,
                            .is_file = is_file,
                            .is_link = S_ISLNK(found.st_mode),
                            .owner = found.st_uid};
}

}  // namespace

std::optional<Filesystem::Status> RealFilesystem::status(const std::string& path) {
  struct stat found {};
  const int result = stat(path.c_str(), &found);
  return found_status(result, found, path);
}

std::optional<Filesystem::Status> RealFilesystem::own_status(const std::string& path) {
  struct stat found {};
  const int result = lstat(path.c_str(), &found);
  return found_status(result, found, path);
}

std::uint64_t RealFilesystem::free_bytes(const std::string& path) {
  struct statvfs disk {};
  check(uninterrupted([&] { return statvfs(path.c_str(), &disk); }) == 0, "look at", path);
  return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
}

Filesystem& real_filesystem() {
  static RealFilesystem files;
  return files;
}

}  // namespace cxtrain
