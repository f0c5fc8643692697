#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/staging.h"

/// A checkpoint on the disk: a folder with a manifest and the files that it names. It is written under
/// another name, PATH.part, and renamed when everything is on the disk: who looks for PATH finds a complete
/// one or none, also after a crash. A checkpoint that takes the place of another renames that one to PATH.old
/// for the moment.
namespace cxtrain {

inline constexpr const char *kCheckpointSuffix = ".ckpt", *kPartSuffix = ".part", *kOldSuffix = ".old";

/// Whether a training names its checkpoints so: "epoch=1-step=90.ckpt", without a folder.
bool is_checkpoint_name(std::string_view name);

/// Whether somebody else has a folder where this checkpoint is written before it is complete: in a folder
/// that others may write into, nobody but its owner can remove it. Throws FileError.
bool has_part_of_another_user(Filesystem& files, const std::string& path);

/// Makes the empty folder PATH.part, and those that it lies in; what an earlier attempt left there is gone.
/// One rank calls it.
void begin_checkpoint(Filesystem& files, const std::string& path);

/// Writes files of PATH.part, part after part. Every rank, for its own files.
class CheckpointFilesWriter {
 public:
  CheckpointFilesWriter(Filesystem& files, const std::string& path);
  ~CheckpointFilesWriter();

  /// Appends the content to the files of these names, and makes files that are new. `go_on` is asked between
  /// parts; if it returns false, files are left as they are, and the result is false.
  bool append(std::span<const Staging::File> content, const std::function<bool()>& go_on);
  /// Waits until the files are on the disk, and closes them.
  std::vector<CheckpointFile> finish();

 private:
  struct Open;
  Open& open_file(const std::string& name);

  Filesystem& files_;
  std::string folder_;
  std::vector<std::unique_ptr<Open>> open_;
};

/// Makes PATH.part, in which all other files are, the checkpoint PATH. One rank calls it.
void publish_checkpoint(Filesystem& files, const std::string& path, const Manifest& manifest);

/// Has the link `name`, in the same folder, lead to a checkpoint. One rank calls it.
void link_checkpoint(Filesystem& files, const std::string& path, const std::string& name);

/// Removes a checkpoint, or what was begun of one; does nothing where there is none. A crash leaves what
/// nobody takes for a checkpoint. Where `path` is a symbolic link, only the link is removed. Files that do
/// not belong to a checkpoint stay, and the folder with them: FileError (ENOTEMPTY). One rank calls it.
void remove_checkpoint(Filesystem& files, const std::string& path);

/// Reads PATH's manifest. Throws CheckpointError where there is none, or it is damaged.
Manifest read_manifest(Filesystem& files, const std::string& path);
/// Reads the manifest in a folder that may be no checkpoint; absent: the folder has none, or one of another
/// program. Throws CheckpointError where the manifest is damaged.
std::optional<Manifest> find_manifest(Filesystem& files, const std::string& path);

/// Whether every file is as it was written; only the files whose number is `share` modulo `shares`, so that
/// ranks divide the work. Throws CheckpointError naming the first that is not.
void verify_files(Filesystem& files, const std::string& path, const Manifest& manifest, int share = 0,
                  int shares = 1);

/// The same, by another thread while this one does `work`, which may read the files but must not rely on them
/// yet. A file that is damaged is told rather than what `work` throws.
void verify_files_during(Filesystem& files, const std::string& path, const Manifest& manifest, int share,
                         int shares, const std::function<void()>& work);

/// The checkpoints in a folder whose manifests can be read, those that have trained furthest first. Others
/// are appended to `damaged`, with the reason. None where there is no such folder; a link counts as what it
/// leads to.
struct FoundCheckpoint {
  std::string path;
  Manifest manifest;
};
std::vector<FoundCheckpoint> find_checkpoints(Filesystem& files, const std::string& folder,
                                              std::vector<std::string>& damaged);

}  // namespace cxtrain
