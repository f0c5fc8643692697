#include "cxtrain/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <exception>
#include <future>
#include <tuple>

#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/shard_files.h"

namespace cxtrain {
namespace {

/// Small enough for a processor's cache, so that bytes are summed up right after they were read.
constexpr std::size_t kReadChunk = std::size_t{512} << 10;

/// Large enough to keep a disk busy.
constexpr std::size_t kWriteChunk = std::size_t{8} << 20;

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;

std::string in_folder(const std::string& folder, std::string_view name) {
  return folder + "/" + std::string(name);
}

bool is_file_of_checkpoint(const std::string& name) {
  const bool is_numbered = name.starts_with("model") || name.starts_with("training");
  return name == Manifest::kFile || name == kIndexFile || (is_numbered && name.ends_with(".safetensors"));
}

/// Removes a checkpoint's files, then the folder. The manifest goes first: a folder without a manifest is no
/// checkpoint. Where `path` is a symbolic link, the function removes the link only. Files that do not belong
/// to a checkpoint stay; the folder then stays as well, and the function throws FileError (ENOTEMPTY).
void remove_folder(Filesystem& files, const std::string& path) {
  const std::optional<Filesystem::Status> status = files.own_status(path);
  if (!status) return;
  if (status->is_directory) {
    std::vector<std::string> names = files.list(path);
    std::erase_if(names, [](const std::string& name) { return !is_file_of_checkpoint(name); });
    std::stable_partition(names.begin(), names.end(),
                          [](const std::string& name) { return name == Manifest::kFile; });
    for (const std::string& name : names) files.remove(in_folder(path, name));
  }
  files.remove(path);
}

void write_file(Filesystem& files, const std::string& path, std::string_view content) {
  const std::unique_ptr<WritableFile> file = files.create(path);
  file->write(content);
  file->sync();
  file->close();
}

bool may_be_checkpoint(const std::string& name) {
  return is_checkpoint_name(name) || name.ends_with(std::string(kCheckpointSuffix) + kOldSuffix);
}

}  // namespace

bool is_checkpoint_name(std::string_view name) {
  return name.size() > std::string_view(kCheckpointSuffix).size() && name.ends_with(kCheckpointSuffix) &&
         name.find('/') == std::string_view::npos;
}

bool has_part_of_another_user(Filesystem& files, const std::string& path) {
  const std::string part = path + kPartSuffix;
  return files.own_status(part) && !belongs_to_this_user(files, part);
}

void begin_checkpoint(Filesystem& files, const std::string& path) {
  make_directories(files, parent_directory(path));
  const std::string part = path + kPartSuffix;
  remove_folder(files, part);
  if (!files.make_directory(part)) throw FileError("create the folder", part, EEXIST);
}

struct CheckpointFilesWriter::Open {
  std::string name;
  std::unique_ptr<WritableFile> file;
  std::uint64_t bytes = 0;
  Checksum checksum;
};

CheckpointFilesWriter::CheckpointFilesWriter(Filesystem& files, const std::string& path)
    : files_(files), folder_(path + kPartSuffix) {}

CheckpointFilesWriter::~CheckpointFilesWriter() = default;

CheckpointFilesWriter::Open& CheckpointFilesWriter::open_file(const std::string& name) {
  for (const auto& open : open_) {
    if (open->name == name) return *open;
  }
  open_.push_back(std::make_unique<Open>());
  open_.back()->name = name;
  open_.back()->file = files_.create(in_folder(folder_, name));
  return *open_.back();
}

bool CheckpointFilesWriter::append(std::span<const Staging::File> content,
                                   const std::function<bool()>& go_on) {
  std::vector<Open*> open;
  for (const Staging::File& file : content) open.push_back(&open_file(file.name));
  // By another thread: this one waits for the disk most of the time.
  std::future<void> summed = std::async(std::launch::async, [&] {
    for (std::size_t i = 0; i < content.size(); ++i) {
      open[i]->checksum.add(content[i].bytes);
      open[i]->bytes += content[i].bytes.size();
    }
  });
  for (std::size_t i = 0; i < content.size(); ++i) {
    for (std::size_t begin = 0; begin < content[i].bytes.size(); begin += kWriteChunk) {
      if (!go_on()) return false;
      open[i]->file->write(content[i].bytes.substr(begin, kWriteChunk));
    }
  }
  summed.get();
  return true;
}

std::vector<CheckpointFile> CheckpointFilesWriter::finish() {
  std::vector<CheckpointFile> written;
  for (const auto& open : open_) {
    open->file->sync();
    open->file->close();
    written.push_back({open->name, open->bytes, open->checksum.text()});
  }
  return written;
}

void publish_checkpoint(Filesystem& files, const std::string& path, const Manifest& manifest) {
  const std::string part = path + kPartSuffix, old = path + kOldSuffix, parent = parent_directory(path);
  write_file(files, in_folder(part, Manifest::kFile), to_text(manifest));
  files.sync_directory(part);
  const bool replaces = files.own_status(path).has_value();
  if (replaces) {
    remove_folder(files, old);
    files.rename(path, old);
    // Or the two renames could come to the disk in the other order.
    files.sync_directory(parent);
  }
  files.rename(part, path);
  files.sync_directory(parent);
  if (!replaces) return;
  try {
    remove_folder(files, old);
  } catch (const FileError&) {
    // The new one is complete all the same; the next one of this name tidies up.
  }
}

void link_checkpoint(Filesystem& files, const std::string& path, const std::string& name) {
  const std::string folder = parent_directory(path);
  files.link(path.substr(path.rfind('/') + 1), in_folder(folder, name));
  files.sync_directory(folder);
}

void remove_checkpoint(Filesystem& files, const std::string& path) {
  for (const char* suffix : {"", kPartSuffix, kOldSuffix}) remove_folder(files, path + suffix);
}

namespace {

Manifest read_manifest_of(Filesystem& files, const std::string& path) {
  const std::string file = in_folder(path, Manifest::kFile);
  const std::optional<Filesystem::Status> status = files.status(path);
  if (!status)
    throw CheckpointError("there is no checkpoint '" + path + "'", MessageCode::checkpoint_missing);
  if (!files.status(file))
    throw CheckpointError("'" + path + "' is not a checkpoint: it lacks " + std::string(Manifest::kFile) +
                              (status->is_directory ? "" : "; a file of weights is read by --model.weights"),
                          MessageCode::checkpoint_missing);
  return manifest_from(read_whole_file(files, file, kMaxManifestBytes), file);
}

/// Returns what `read` reads. A path that leads nowhere is a CheckpointError.
template <class Read>
auto with_wrong_paths_refused(const Read& read) {
  try {
    return read();
  } catch (const FileError& error) {
    if (is_wrong_path(error)) throw CheckpointError(error.what(), message_code_of(error));
    throw;
  }
}

}  // namespace

Manifest read_manifest(Filesystem& files, const std::string& path) {
  return with_wrong_paths_refused([&] { return read_manifest_of(files, path); });
}

std::optional<Manifest> find_manifest(Filesystem& files, const std::string& path) {
  return with_wrong_paths_refused([&]() -> std::optional<Manifest> {
    const std::string file = in_folder(path, Manifest::kFile);
    if (!files.status(file)) return std::nullopt;
    const std::string text = read_whole_file(files, file, kMaxManifestBytes);
    if (is_of_another_program(text)) return std::nullopt;
    return manifest_from(text, file);
  });
}

void verify_files(Filesystem& files, const std::string& path, const Manifest& manifest, int share,
                  int shares) {
  std::string chunk(kReadChunk, '\0');
  for (std::size_t i = static_cast<std::size_t>(share); i < manifest.files.size();
       i += static_cast<std::size_t>(shares)) {
    const CheckpointFile& expected = manifest.files[i];
    const std::string name = in_folder(path, expected.name);
    const auto refuse = [&](const std::string& why) {
      throw CheckpointError("the checkpoint '" + path + "' is damaged: " + expected.name + " " + why +
                            "; use another checkpoint (--ckpt_path auto looks for one)");
    };
    const auto status = files.status(name);
    if (!status) refuse("is missing");
    if (status->size != expected.bytes)
      refuse("has " + std::to_string(status->size) + " bytes, and had " + std::to_string(expected.bytes));
    const std::unique_ptr<ReadableFile> file = files.open(name);
    Checksum checksum;
    for (std::uint64_t offset = 0; offset < expected.bytes;) {
      const std::size_t got = file->read(offset, {chunk.data(), chunk.size()});
      if (got == 0) refuse("ends too early");
      checksum.add({chunk.data(), got});
      offset += got;
    }
    if (checksum.text() != expected.xxh3) refuse("has other bytes than it had when it was written");
  }
}

void verify_files_during(Filesystem& files, const std::string& path, const Manifest& manifest, int share,
                         int shares, const std::function<void()>& work) {
  std::future<void> verified =
      std::async(std::launch::async, [&] { verify_files(files, path, manifest, share, shares); });
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  verified.get();
  if (failure) std::rethrow_exception(failure);
}

std::vector<FoundCheckpoint> find_checkpoints(Filesystem& files, const std::string& folder,
                                              std::vector<std::string>& damaged) {
  std::vector<FoundCheckpoint> found;
  const auto status = files.status(folder);
  if (!status || !status->is_directory) return found;
  for (const std::string& name : files.list(folder)) {
    if (!may_be_checkpoint(name)) continue;
    const std::string path = in_folder(folder, name);
    try {
      Manifest manifest = read_manifest(files, path);
      const bool linked = std::ranges::any_of(found, [&](const FoundCheckpoint& each) {
        return each.manifest.created == manifest.created && each.manifest.files == manifest.files;
      });
      if (!linked) found.push_back({path, std::move(manifest)});
    } catch (const Error& error) {
      damaged.emplace_back(error.what());
    }
  }
  std::ranges::stable_sort(found, [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    const auto progress = [](const Manifest& m) { return std::tuple(m.global_step, m.epoch, m.batch); };
    return progress(a.manifest) > progress(b.manifest);
  });
  return found;
}

}  // namespace cxtrain
