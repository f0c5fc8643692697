#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "support/cached_disk.h"
#include "support/planned_faults.h"

namespace cxtrain::test {

/// Files in memory, on a disk with a write cache that fails and crashes when it is told to. Of a write that
/// crashes, a first part is in the cache. Several threads may use it.
class FaultyFilesystem : public Filesystem, public PlannedFaults {
 public:
  FaultyFilesystem() = default;
  FaultyFilesystem(const FaultyFilesystem&) = delete;
  FaultyFilesystem& operator=(const FaultyFilesystem&) = delete;

  /// A write that goes beyond it adds what there is room for, and fails with ENOSPC.
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }

  /// Root owns everything else.
  void set_owner(const std::string& path, std::uint32_t user) { owners_[path] = user; }

  /// What the disk may hold after a crash at this moment, as CachedDisk::after_crash says. No faults are
  /// left.
  FaultyFilesystem after_crash(std::uint64_t seed) const { return FaultyFilesystem(*this, seed); }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    const auto lock = locked();
    enter(Call::create, "open", path);
    auto node = disk_.file_to_write(path);
    node->resize(0);
    return std::make_unique<Writer>(*this, path, node);
  }

  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    const auto lock = locked();
    enter(Call::append_to, "open", path);
    return std::make_unique<Writer>(*this, path, disk_.file_to_write(path));
  }

  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    const auto lock = locked();
    enter(Call::open, "read", path);
    auto node = disk_.require(path, "read");
    if (node->is_directory) throw FileError("read", path, EISDIR);
    return std::make_unique<Reader>(*this, path, node);
  }

  void rename(const std::string& from, const std::string& to) override {
    const auto lock = locked();
    enter(Call::rename, "rename", from);
    const auto node = disk_.require(from, "rename");
    const Place source = disk_.place_of(from, "rename"), target = disk_.place_of(to, "rename");
    if (const auto old = target.node()) {
      if (old == node) return;
      if (node->is_directory && !old->is_directory) throw FileError("rename", from, ENOTDIR);
      if (!node->is_directory && old->is_directory) throw FileError("rename", from, EISDIR);
      if (!old->children.empty()) throw FileError("rename", from, ENOTEMPTY);
    }
    for (const Node* folder = target.folder.get(); folder != nullptr; folder = folder->parent) {
      if (folder == node.get()) throw FileError("rename", from, EINVAL);
    }
    disk_.change({{source, nullptr}, {target, node}});
  }

  /// Another name of the same node: as good as a link for those who do not rename what it leads to.
  void link(const std::string& name, const std::string& path) override {
    const auto lock = locked();
    enter(Call::link, "create the link", path);
    const Place place = disk_.place_of(path, "create the link");
    const auto target = Place{place.folder, name}.node();
    if (!target) throw FileError("create the link", path, ENOENT);
    if (place.node() && !links_.contains(path)) throw FileError("create the link", path, EISDIR);
    disk_.change({{place, target}});
    links_.insert(path);
  }

  void remove(const std::string& path) override {
    const auto lock = locked();
    enter(Call::remove, "remove", path);
    const auto node = disk_.require(path, "remove");
    const bool is_link = links_.erase(path) > 0;
    if (!is_link && !node->children.empty()) throw FileError("remove", path, ENOTEMPTY);
    disk_.change({{disk_.place_of(path, "remove"), nullptr}});
  }

  bool make_directory(const std::string& path) override {
    const auto lock = locked();
    enter(Call::make_directory, "create the folder", path);
    if (CachedDisk::is_root(path)) return false;
    const Place place = disk_.place_of(path, "create the folder");
    if (place.node()) return false;
    auto node = std::make_shared<Node>();
    node->is_directory = true;
    disk_.change({{place, node}});
    return true;
  }

  std::vector<std::string> list(const std::string& path) override {
    const auto lock = locked();
    enter(Call::list, "list", path);
    std::vector<std::string> names;
    for (const auto& [name, node] : disk_.folder(path, "list")->children) names.push_back(name);
    return names;
  }

  void sync_directory(const std::string& path) override {
    const auto lock = locked();
    enter(Call::sync_directory, "sync the folder", path);
    disk_.sync_names(disk_.folder(path, "sync the folder"));
  }

  std::unique_ptr<FileLock> try_lock(const std::string& path, LockKind kind) override {
    const auto lock = locked();
    enter(Call::try_lock, "lock", path);
    disk_.file_to_write(path);
    int& holders = locks_[path];
    if (holders == kExclusive || (kind == LockKind::exclusive && holders > 0)) return nullptr;
    holders = kind == LockKind::exclusive ? kExclusive : holders + 1;
    return std::make_unique<Lock>(*this, path);
  }

  std::optional<Status> status(const std::string& path) override {
    const auto lock = locked();
    enter(Call::status, "look at", path);
    try {
      const auto node = disk_.require(path, "look at");
      return Status{.is_directory = node->is_directory,
                    .size = node->content.size(),
                    .is_file = !node->is_directory,
                    .owner = owner_of(path)};
    } catch (const FileError&) {
      return std::nullopt;
    }
  }

  std::optional<Status> own_status(const std::string& path) override {
    const auto lock = locked();
    if (!links_.contains(path)) return status(path);
    enter(Call::status, "look at", path);
    return Status{.is_link = true, .owner = owner_of(path)};
  }

  std::uint64_t free_bytes(const std::string& path) override {
    const auto lock = locked();
    enter(Call::free_bytes, "look at", path);
    disk_.require(path, "look at");
    return room();
  }

 private:
  using Node = CachedDisk::Node;
  using Place = CachedDisk::Place;

  FaultyFilesystem(const FaultyFilesystem& before, std::uint64_t seed)
      : disk_(before.disk_.after_crash(seed)), capacity_(before.capacity_), links_(before.links_) {}

  std::uint32_t owner_of(const std::string& path) const {
    const auto owner = owners_.find(path);
    return owner == owners_.end() ? 0 : owner->second;
  }

  std::unique_lock<std::recursive_mutex> locked() const { return std::unique_lock(mutex_); }
  std::uint64_t room() const { return capacity_ - std::min(capacity_, disk_.used()); }

  class Writer final : public WritableFile {
   public:
    Writer(FaultyFilesystem& files, std::string path, std::shared_ptr<Node> node)
        : files_(files), path_(std::move(path)), node_(std::move(node)) {}

    void write(std::string_view bytes) override {
      const auto lock = files_.locked();
      std::size_t room = bytes.size();
      int error = 0;
      try {
        files_.enter(Call::write, "write", path_);
      } catch (const Crash&) {
        if (!files_.was_down()) add(bytes.substr(0, bytes.size() / 2));
        throw;
      } catch (const FileError& failed) {
        room = std::min(room, files_.bytes_of_fault());
        error = failed.reason().value();
      }
      require_open("write");
      if (files_.room() < room) {
        room = files_.room();
        error = ENOSPC;
      }
      add(bytes.substr(0, room));
      if (error != 0) throw FileError("write", path_, error);
    }

    /// As Linux does it: after an error the cache no longer knows what has not reached the disk.
    void sync() override {
      const auto lock = files_.locked();
      require_open("sync");
      try {
        files_.enter(Call::sync, "sync", path_);
      } catch (const FileError&) {
        node_->forget_dirty();
        throw;
      }
      node_->sync();
    }

    std::uint64_t size() const override {
      const auto lock = files_.locked();
      files_.enter(Call::size, "look at", path_);
      require_open("look at");
      if (node_->links == 0) throw FileError("write", path_, ENOENT);
      return node_->content.size();
    }

    void truncate(std::uint64_t size) override {
      const auto lock = files_.locked();
      files_.enter(Call::truncate, "cut", path_);
      require_open("cut");
      node_->resize(size);
    }

    void close() override {
      const auto lock = files_.locked();
      require_open("close");
      open_ = false;
      files_.enter(Call::close, "close", path_);
    }

   private:
    void add(std::string_view bytes) {
      node_->content += bytes;
      node_->resize(node_->content.size());
    }
    void require_open(const char* operation) const {
      if (!open_) throw FileError(operation, path_, EBADF);
    }

    FaultyFilesystem& files_;
    std::string path_;
    std::shared_ptr<Node> node_;
    bool open_ = true;
  };

  class Reader final : public ReadableFile {
   public:
    Reader(FaultyFilesystem& files, std::string path, std::shared_ptr<const Node> node)
        : files_(files), path_(std::move(path)), node_(std::move(node)) {}

    std::uint64_t size() const override {
      const auto lock = files_.locked();
      files_.enter(Call::size, "look at", path_);
      return node_->content.size();
    }
    std::size_t read(std::uint64_t offset, std::span<char> bytes) const override {
      const auto lock = files_.locked();
      files_.enter(Call::read, "read", path_);
      if (offset >= node_->content.size()) return 0;
      return node_->content.copy(bytes.data(), bytes.size(), offset);
    }

   private:
    FaultyFilesystem& files_;
    std::string path_;
    std::shared_ptr<const Node> node_;
  };

  static constexpr int kExclusive = -1;

  class Lock final : public FileLock {
   public:
    Lock(FaultyFilesystem& files, std::string path) : files_(files), path_(std::move(path)) {}
    ~Lock() override {
      const auto lock = files_.locked();
      int& holders = files_.locks_[path_];
      holders = holders == kExclusive ? 0 : holders - 1;
    }
    bool share() override {
      const auto lock = files_.locked();
      int& holders = files_.locks_[path_];
      if (holders == kExclusive) holders = 1;
      return true;
    }

   private:
    FaultyFilesystem& files_;
    std::string path_;
  };

  CachedDisk disk_;
  std::uint64_t capacity_ = std::numeric_limits<std::uint64_t>::max();
  std::set<std::string> links_;                  ///< paths
  std::map<std::string, int> locks_;             ///< by path: how many hold it, or kExclusive
  std::map<std::string, std::uint32_t> owners_;  ///< by path
  mutable std::recursive_mutex mutex_;
};

}  // namespace cxtrain::test
