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

/// Files and folders: how everything that a run writes comes to the disk, and is read back.
///
/// `Filesystem` is a port. It has two implementations, which keep the same contract
/// (tests/base/filesystem_test.cpp runs against both): the operating system's files
/// (`RealFilesystem`), and files in memory for tests, which fail and crash when they are told to
/// (tests/support/faulty_filesystem.h). Whoever writes files is handed a `Filesystem&`, which outlives it.
///
/// Other processes see every change at once. A crash of the machine keeps the content that a file had at its
/// last `sync`, under the name that it had at the last `sync_directory` of its folder. Of later changes it
/// may keep all, none or some.
///
/// Every operation that fails throws a FileError. Several threads may use a Filesystem at once, and one
/// thread a file that is open for writing.
namespace cxtrain {

/// An operation on a file or folder failed. The message says which one, on what, why, and what to do.
class FileError : public Error {
 public:
  /// `operation` completes "cannot ... 'path'"; `reason` is an errno value.
  FileError(const std::string& operation, const std::string& path, int reason);
  const std::string& path() const noexcept { return path_; }
  /// What the system says: compare it with std::errc.
  const std::error_code& reason() const noexcept { return reason_; }

 private:
  std::string path_;
  std::error_code reason_;
};

/// A file that is open for writing at its end. After `close` nothing else may be called.
class WritableFile {
 public:
  /// Closes the file. An error at this point is lost: call `close` first where it matters.
  virtual ~WritableFile() = default;
  /// Adds all of `bytes`. When it throws, some first part of them may have been added. Large parts begin to
  /// go to the disk at once, so that `sync` has less to wait for; fastest from memory that begins at a page.
  virtual void write(std::string_view bytes) = 0;
  /// Waits until the content is on the disk. When it throws, a part of the content may be lost that readers
  /// still see, and another `sync` would not notice: write a new file.
  virtual void sync() = 0;
  /// How many bytes the file has; 0 for a device. Throws (ENOENT) when the file has been deleted or replaced,
  /// since nobody would see what is written from then on; one that another node deleted may go unnoticed on
  /// a network file system.
  virtual std::uint64_t size() const = 0;
  /// Cuts the file after its first `size` bytes; does nothing to a device.
  virtual void truncate(std::uint64_t size) = 0;
  /// The file is closed, also when this throws. A network file system may say only now that there was no
  /// room.
  virtual void close() = 0;
};

/// A file that is open for reading. It may be read by several threads at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual std::uint64_t size() const = 0;
  /// Fills `bytes` with the file's content from `offset` on. Returns how many bytes there were, which are
  /// fewer than asked for only where the file ends.
  virtual std::size_t read(std::uint64_t offset, std::span<char> bytes) const = 0;
};

/// A lock on a file, held until the object is destroyed or the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// Makes an exclusive lock a shared one. Returns false where somebody else got it meanwhile: it is lost.
  virtual bool share() = 0;
};

class Filesystem {
 public:
  /// Of a file: one exclusive lock, or any number of shared ones.
  enum class LockKind { exclusive, shared };

  struct Status {
    bool is_directory = false;
    std::uint64_t size = 0;   ///< of a file, in bytes
    bool is_file = false;     ///< a regular file
    bool is_link = false;     ///< a symbolic link; `status` follows links, so only `own_status` sets this
    std::uint32_t owner = 0;  ///< user id
  };

  virtual ~Filesystem() = default;

  /// Opens a new file, or empties an existing one. Throws where `path` is a symbolic link (ELOOP), a pipe or
  /// a socket (EOPNOTSUPP): another user may have created the link or the pipe.
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;
  /// Opens an existing file to write behind its end, or a new file. Throws as `create` does.
  virtual std::unique_ptr<WritableFile> append_to(const std::string& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;

  /// Gives a file or a folder another name on the same disk, at once for all who look. A file, or an empty
  /// folder, that had this name is gone.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Makes `path` a symbolic link that leads to `name` in the same folder; a link that had this name is gone,
  /// at once for all who look.
  virtual void link(const std::string& name, const std::string& path) = 0;
  /// Deletes a file, a link or an empty folder. An open file can be used until it is closed.
  virtual void remove(const std::string& path) = 0;

  /// Returns false where there is something of this name already. Of all who make the same folder at the
  /// same time exactly one gets true.
  virtual bool make_directory(const std::string& path) = 0;
  /// The names in a folder, sorted.
  virtual std::vector<std::string> list(const std::string& path) = 0;
  /// Waits until the names in a folder are on the disk: what was created, renamed and removed in it. What the
  /// user may not open, or the file system has no way to wait for, is left to the system.
  virtual void sync_directory(const std::string& path) = 0;

  /// A lock on the file `path`, which is made where it is missing and must not be renamed or removed by those
  /// who use it so; null where somebody else's lock, on any node that sees the file, is in the way. Waits for
  /// nobody. Only the file's owner may open it: whoever can open a file can lock it. Symbolic links are not
  /// followed (ELOOP). Where the file system has no locks, the error's reason is ENOTSUP.
  virtual std::unique_ptr<FileLock> try_lock(const std::string& path, LockKind kind) = 0;

  /// What is there, where a symbolic link leads; nothing where nothing is.
  virtual std::optional<Status> status(const std::string& path) = 0;
  /// The status of `path` itself: where `path` is a symbolic link, the status of the link.
  virtual std::optional<Status> own_status(const std::string& path) = 0;
  /// The room that is left for this user on the disk that holds `path`, in bytes; quotas may leave less.
  virtual std::uint64_t free_bytes(const std::string& path) = 0;
};

/// Gives the file at `path` the content that `write` puts into a new file, which is on the disk when this
/// returns. Other processes, and whoever looks after a crash, see the old content or the new one, never a
/// part. When it throws, the old content is there; or the new one, if only the last operation has failed,
/// which makes the new one survive a crash. A crash may leave a file `path`.part.PROCESS.NUMBER behind.
/// Only a file is replaced: a symbolic link (ELOOP), a device, a pipe or a socket (EOPNOTSUPP) stays.
void replace_file(Filesystem& files, const std::string& path,
                  const std::function<void(WritableFile&)>& write);

/// Replaces the file at `path`, as `replace_file` does, by a file with this content.
void write_atomically(Filesystem& files, const std::string& path, std::string_view content);

/// Replaces the file at `path`, as `write_atomically` does, but does not wait for the disk. A crash of the
/// machine may lose the old and the new content: for files that nobody needs after a crash.
void write_at_once(Filesystem& files, const std::string& path, std::string_view content);

/// More bytes than any file has that is read as a whole.
inline constexpr std::uint64_t kLargestWholeFile = std::uint64_t{1} << 30;

/// The whole of a file. Throws (EFBIG) where the file has more than `most` bytes: what lies in a folder is
/// not trusted, and a sparse file takes no room on the disk.
std::string read_whole_file(Filesystem& files, const std::string& path,
                            std::uint64_t most = kLargestWholeFile);

/// Creates a folder and those that it lies in, as far as they are missing, so that a crash leaves them there.
void make_directories(Filesystem& files, const std::string& path);

/// Whether a path can never be what was meant, rather than that a disk has failed now: a loop of links, a
/// name that is too long, a file in the place of a folder or the other way round.
bool is_wrong_path(const FileError& error);

/// Whether `path`, and what it leads to where it is a symbolic link, belongs to this process's user or to
/// root. What others have put into a shared folder is not taken for one's own.
bool belongs_to_this_user(Filesystem& files, const std::string& path);

/// The folder that `path` lies in: "." for a mere name.
std::string parent_directory(const std::string& path);

/// The files of the operating system. It has no state: any two are the same, and any thread may use one.
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

/// For the outermost callers (main, what a Trainer uses by default); everybody else is handed a Filesystem&.
Filesystem& real_filesystem();

}  // namespace cxtrain
