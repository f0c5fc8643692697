#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/text.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

struct NamedFilesystem {
  std::uint32_t magic;
  const char* name;
};
/// statfs(2)'s numbers.
constexpr NamedFilesystem kFilesystems[] = {
    {0xef53, "ext4"},         {0x58465342, "xfs"},      {0x9123683e, "btrfs"},   {0x01021994, "tmpfs"},
    {0x858458f6, "ramfs"},    {0x6969, "nfs"},          {0x0bd00bd0, "lustre"},  {0x47504653, "gpfs"},
    {0x19830326, "beegfs"},   {0x00c36400, "ceph"},     {0x65735546, "fuse"},    {0xff534d42, "cifs"},
    {0xfe534d42, "smb2"},     {0x01021997, "9p"},       {0x794c7630, "overlay"}, {0x2fc12fc1, "zfs"},
    {0x73717368, "squashfs"}, {0x6a656a63, "virtiofs"}, {0xaad7aaea, "panfs"},   {0x01161970, "gfs2"},
    {0x7461636f, "ocfs2"},    {0x4244, "hfs"},          {0x4d44, "vfat"},        {0xf2f52010, "f2fs"},
};

/// What is written to measure, and for how long at most; waiting for the disk comes after it.
constexpr std::size_t kWrittenParts = 8, kWrittenPart = std::size_t{1} << 20;
constexpr std::chrono::duration<double> kWritingTime{0.2};

/// A new file in `folder`, which is removed with the object.
class ProbeFile {
 public:
  explicit ProbeFile(const std::string& folder) : path_(folder + "/.cxtrain-doctor-XXXXXX") {
    file_ = FileDescriptor(mkostemp(path_.data(), O_CLOEXEC));
  }
  ~ProbeFile() {
    if (file_) unlink(path_.c_str());
  }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  explicit operator bool() const { return static_cast<bool>(file_); }
  int get() const { return file_.get(); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  FileDescriptor file_;
};

std::optional<double> write_speed(const ProbeFile& file) {
  using SteadyTime = std::chrono::steady_clock;
  const std::vector<char> part(kWrittenPart, 'x');
  const auto begin = SteadyTime::now();
  std::size_t written = 0;
  for (std::size_t i = 0; i < kWrittenParts && SteadyTime::now() - begin < kWritingTime; ++i) {
    const ssize_t count = ::write(file.get(), part.data(), part.size());
    if (count <= 0) return std::nullopt;
    written += static_cast<std::size_t>(count);
  }
  if (fsync(file.get()) != 0) return std::nullopt;
  const double seconds = std::chrono::duration<double>(SteadyTime::now() - begin).count();
  return seconds > 0 ? std::optional(static_cast<double>(written) / seconds) : std::nullopt;
}

bool is_there(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0;
}

std::string absolute_path(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed).lexically_normal();
  return failed ? path : absolute.string();
}

}  // namespace

std::string nearest_folder(const std::string& path) {
  std::filesystem::path folder = absolute_path(path);
  std::error_code failed;
  while (!std::filesystem::is_directory(folder, failed) && folder.has_relative_path())
    folder = folder.parent_path();
  return folder.string();
}

std::string filesystem_name(const std::string& path) {
  struct statfs status {};
  if (statfs(path.c_str(), &status) != 0) return "";
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  const auto* found = std::ranges::find(kFilesystems, magic, &NamedFilesystem::magic);
  if (found != std::end(kFilesystems)) return found->name;
  return formatted("0x%x", magic);
}

FolderFacts probe_output(const std::string& path) {
  FolderFacts facts;
  facts.path = absolute_path(path);
  facts.exists = is_there(facts.path);
  const std::string folder = nearest_folder(path);
  facts.filesystem = filesystem_name(folder);
  facts.free_bytes = room_of(folder).free;
  facts.readable = access(folder.c_str(), R_OK | X_OK) == 0;
  const ProbeFile file(folder);
  // A file of this name is no folder to write in.
  facts.writable = file && (!*facts.exists || folder == facts.path);
  if (file) facts.write_bytes_per_second = write_speed(file);
  return facts;
}

bool takes_files(const std::string& path) {
  const std::string folder = nearest_folder(path);
  return ProbeFile(folder) && (!is_there(path) || folder == absolute_path(path));
}

FolderFacts probe_data(const std::string& path) {
  FolderFacts facts;
  if (path.empty()) return facts;
  facts.path = absolute_path(path);
  facts.exists = is_there(facts.path);
  facts.readable = access(facts.path.c_str(), R_OK) == 0;
  facts.filesystem = filesystem_name(facts.path);
  facts.free_bytes = room_of(facts.path).free;
  return facts;
}

std::optional<bool> sees_file_of_root(World& world, const std::string& folder) {
  std::optional<ProbeFile> file;
  if (world.is_root()) file.emplace(nearest_folder(folder));
  const std::string path = world.broadcast(file && *file ? file->path() : "");
  std::optional<bool> seen;
  // By the folder's list: a network file system may remember for a while that there was no such name.
  if (!path.empty() && world.facts().local_rank == 0) {
    const std::filesystem::path wanted = path;
    std::error_code failed;
    seen = false;
    for (std::filesystem::directory_iterator entry(wanted.parent_path(), failed), end;
         !failed && entry != end; entry.increment(failed))
      seen = *seen || entry->path().filename() == wanted.filename();
  }
  world.barrier();
  return seen;
}

}  // namespace cxtrain::doctor
