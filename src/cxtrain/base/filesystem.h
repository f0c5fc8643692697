#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cxtrain/base/error.h"

/// Files and folders: all writing to the disk, and all reading back, of a run.
///
/// `Filesystem` is a port. Two implementations keep its contract (tests/base/filesystem_test.cpp runs against
/// both): the operating system's files (`RealFilesystem`), and files in memory for tests, which fail and
/// crash on request (tests/support/faulty_filesystem.h). Code that writes files gets a `Filesystem&`, which
/// must outlive it.
///
/// Other processes see every change at once. A crash of the machine keeps the content of a file's last
/// `sync`, under the name of its folder's last `sync_directory`. A crash may keep all, none or some of the
/// later changes.
///
/// Every operation that fails throws a FileError. Several threads may use a Filesystem at once. Only one
/// thread may use a file that is open for writing.
namespace cxtrain {

/// An operation on a file or folder failed. The message names the operation, the path, the reason and the
/// fix.
class FileError : public Error {
 public:
  /// `operation` completes "cannot ... 'path'"; `reason` is an errno value.
  FileError(const std::string& operation, const std::string& path, int reason);
  const std::string& path() const noexcept { return path_; }
  /// The system's error code: compare it with std::errc.
  const std::error_code& reason() const noexcept { return reason_; }

 private:
  std::string path_;
  std::error_code reason_;
};

/// A file that is open for writing at its end. After `close` no other method may be called.
class WritableFile {
 public:
  /// Closes the file and loses any error. Call `close` first if an error matters.
  virtual ~WritableFile() = default;
  /// Appends all of `bytes`. If it throws, a first part of `bytes` may have been appended. Large parts start
  /// to go to the disk at once, so that `sync` waits for less. Writing is fastest from memory that begins at
  /// a page.
  virtual void write(std::string_view bytes) = 0;
  /// Waits until the content is on the disk. If it throws, a part of the content that readers still see may
  /// be lost, and another `sync` would not report it: write a new file.
  virtual void sync() = 0;
  /// Returns the file's size in bytes; 0 for a device. Throws (ENOENT) if the file was deleted or replaced,
  /// because no reader would see later writes. On a network file system, a deletion by another node may go
  /// unnoticed.
  virtual std::uint64_t size() const = 0;
  /// Cuts the file after its first `size` bytes; does nothing to a device.
  virtual void truncate(std::uint64_t size) = 0;
  /// Closes the file, also if it throws. A network file system may report a full disk only now.
  virtual void close() = 0;
};

/// A file that is open for reading. Several threads may read it at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;
  /// Fills `bytes` with the file's content from `offset` on. Returns the number of bytes read, which is
  /// smaller than requested only at the end of the file.
  virtual std::size_t read(std::uint64_t offset, std::span<char> bytes) const = 0;
};

/// A lock on a file, held until the object is destroyed or the process ends in any way.
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// Turns an exclusive lock into a shared lock. Returns false if another process took the lock meanwhile:
  /// the lock is lost.
  virtual bool share() = 0;
};

class Filesystem {
 public:
  /// Kinds of lock: a file has one exclusive lock, or any number of shared locks.
  enum class LockKind { exclusive, shared };

  struct Status {
    bool is_directory = false;
    std::uint64_t size = 0;   ///< in bytes; 0 if it is not a file
    bool is_file = false;     ///< a regular file
    bool is_link = false;     ///< a symbolic link; `status` follows links, so only `own_status` sets this
    std::uint32_t owner = 0;  ///< user id
  };

  virtual ~Filesystem() = default;

  /// Opens a new file, or empties an existing file. Throws if `path` is a symbolic link (ELOOP), a pipe or a
  /// socket (EOPNOTSUPP): another user may have created the link or the pipe.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  /// Opens an existing file to write at its end, or a new file. Throws as `create` does.
  virtual std::unique_ptr<WritableFile> append_to(const std::string& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;

  /// Gives a file or a folder another name on its disk, in one step for all readers. Replaces a file, or an
  /// empty folder, of the new name.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Makes `path` a symbolic link to `name` in the link's folder, in one step for all readers. Replaces a
  /// link of that name.
  virtual void link(const std::string& name, const std::string& path) = 0;
  /// Deletes a file, a link or an empty folder. An open file can be used until it is closed.
  virtual void remove(const std::string& path) = 0;

  /// Creates a folder. Returns false if something of this name exists. If several processes create a folder
  /// at once, exactly one of them gets true.
  virtual bool make_directory(const std::string& path) = 0;
  /// Returns the names in a folder, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  /// Waits until the names in a folder are on the disk: all creations, renames and removals. Does not wait
  /// for a folder that the user may not open, or if the file system has no way to wait.
  virtual void sync_directory(const std::string& path) = 0;

  /// Locks the file `path`, and creates it if it is missing. Does not wait: returns null if another lock,
  /// from any node that sees the file, is in the way. Users of the lock must not rename or remove the file.
  /// Only the file's owner may open it, because any process that can open a file can lock it. Does not follow
  /// symbolic links (ELOOP). The error's reason is ENOTSUP if the file system has no locks.
  virtual std::unique_ptr<FileLock> try_lock(const std::string& path, LockKind kind) = 0;

  /// Returns the status of `path`, or of the target of a symbolic link; absent if nothing exists there.
  virtual std::optional<Status> status(const std::string& path) = 0;
  /// Returns the status of `path` itself: if `path` is a symbolic link, the status of the link.
  virtual std::optional<Status> own_status(const std::string& path) = 0;
  /// Returns the bytes that this user can still write on the disk that holds `path`; quotas may leave less.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;
};

/// Replaces the file at `path` by a new file with the content that `write` writes. The content is on the disk
/// when this returns. Readers, also after a crash, see the old content or the new content, never a part. If
/// it throws, the old content is there, or the new content if only the last operation failed: the sync that
/// lets the new content survive a crash. A crash may leave a file `path`.part.PROCESS.NUMBER behind. Replaces
/// only a file: throws for a symbolic link (ELOOP), a device, a pipe or a socket (EOPNOTSUPP).
void replace_file(Filesystem& files, const std::string& path,
                  const std::function<void(WritableFile&)>& write);

/// Replaces the file at `path`, as `replace_file` does, by a file with this content.
void write_atomically(Filesystem& files, const std::string& path, std::string_view content);

/// Replaces the file at `path`, as `write_atomically` does, but does not wait for the disk. A crash of the
/// machine may lose the old and the new content: use it for files that are not needed after a crash.
void write_at_once(Filesystem& files, const std::string& path, std::string_view content);

/// More bytes than any file has that is read completely.
inline constexpr std::uint64_t kLargestWholeFile = std::uint64_t{1} << 30;

/// Returns the content of a file. Throws (EFBIG) if the file has more than `most` bytes: files in a folder
/// are not trusted, and a sparse file takes no space on the disk.
std::string read_whole_file(Filesystem& files, const std::string& path,
                            std::uint64_t most = kLargestWholeFile);

/// Creates a folder and its missing parents. The folders survive a crash.
void make_directories(Filesystem& files, const std::string& path);

/// Returns whether the path itself is wrong, and not only the disk now: a loop of links, a name that is too
/// long, a file in the place of a folder, or a folder in the place of a file.
bool is_wrong_path(const FileError& error);

/// Returns whether `path`, and its target if it is a symbolic link, belongs to this process's user or to
/// root. A file of another user in a shared folder is not this user's file.
bool belongs_to_this_user(Filesystem& files, const std::string& path);

/// Returns the folder of `path`: "." for a bare name.
std::string parent_directory(const std::string& path);

/// The files of the operating system. It has no state: all objects are equivalent, and any thread may use
/// one.
class RealFilesystem final : public Filesystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  std::unique_ptr<WritableFile> append_to(const std::string& path) override;
  std::unique_ptr<ReadableFile> open(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void link(const std::string& name, const std::string& path) override;
  void remove(const std::string& path) override;
  bool make_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  std::unique_ptr<FileLock> try_lock(const std::string& path, LockKind kind) override;
  std::optional<Status> status(const std::string& path) override;
  std::optional<Status> own_status(const std::string& path) override;
  std::uint64_t free_bytes(const std::string& path) override;
};

/// Returns the file system for the outermost callers (main, the default of a Trainer). All other code gets a
/// Filesystem&.
Filesystem& real_filesystem();

}  // namespace cxtrain
