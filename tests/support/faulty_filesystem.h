#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

namespace cxtrain::test {

/// The machine has gone down: thrown by the call that was told to crash, and by every call after it. No
/// std::exception, so that code which handles errors does not take it for one.
struct Crash {};

/// Files in memory, on a disk that fails and crashes when it is told to. It models a disk with a write cache:
/// readers see the newest content and names at once, while the disk has what was synced, and in any order
/// some of the rest. Several threads may use it. "/" exists; other paths are absolute, or relative to "/".
class FaultyFilesystem : public Filesystem {
 public:
  /// Every call of the port, in the order of its headers; `size` and `read` are those of open files.
  enum class Call {
    create,
    append_to,
    open,
    rename,
    link,
    remove,
    make_directory,
    list,
    sync_directory,
    status,
    free_bytes,
    try_lock,
    write,
    sync,
    size,
    truncate,
    close,
    read
  };

  struct Fault {
    std::size_t call;               ///< which call fails, counted from 0
    int error;                      ///< an errno value
    std::optional<Call> kind = {};  ///< count only calls of this kind
    std::size_t bytes = 0;          ///< what a write still adds before it fails
    bool lasting = false;           ///< later calls (of the kind) fail as well
  };
  void fail(const Fault& fault) { faults_.push_back(fault); }
  /// From now on every call works.
  void heal() { faults_.clear(); }
  /// The call with this number, counted from 0, throws Crash. Of a write, a first part is in the cache by
  /// then.
  void crash_at(std::size_t call) { crash_at_ = call; }
  /// A write that goes beyond it adds what there is room for, and fails with ENOSPC.
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }

  /// The kind of the call that was told to fail and did, last.
  std::optional<Call> failed() const { return failed_; }
  /// How many calls there were, of all kinds or of one.
  std::size_t calls() const { return calls_; }
  std::size_t calls(Call kind) const {
    const auto found = calls_of_.find(kind);
    return found == calls_of_.end() ? 0 : found->second;
  }

  /// What the disk may hold after a crash at this moment: everything that was synced, and of the rest what
  /// `seed` decides: nothing for 0, everything for 1, else some of it. No faults are left.
  FaultyFilesystem after_crash(std::uint64_t seed) const { return FaultyFilesystem(*this, Survival(seed)); }

  FaultyFilesystem() : root_(std::make_shared<Node>()) { root_->is_directory = true; }
  FaultyFilesystem(const FaultyFilesystem&) = delete;
  FaultyFilesystem& operator=(const FaultyFilesystem&) = delete;

  // ------------------------------------------------------------------ the port

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    const auto lock = locked();
    enter(Call::create, "open", path);
    auto node = file_to_write(path);
    node->resize(0);
    return std::make_unique<Writer>(*this, path, node);
  }

  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    const auto lock = locked();
    enter(Call::append_to, "open", path);
    return std::make_unique<Writer>(*this, path, file_to_write(path));
  }

  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    const auto lock = locked();
    enter(Call::open, "read", path);
    auto node = require(path, "read");
    if (node->is_directory) throw FileError("read", path, EISDIR);
    return std::make_unique<Reader>(*this, path, node);
  }

  void rename(const std::string& from, const std::string& to) override {
    const auto lock = locked();
    enter(Call::rename, "rename", from);
    const auto node = require(from, "rename");
    const Place source = place_of(from, "rename"), target = place_of(to, "rename");
    if (const auto old = target.node()) {
      if (old == node) return;
      if (node->is_directory && !old->is_directory) throw FileError("rename", from, ENOTDIR);
      if (!node->is_directory && old->is_directory) throw FileError("rename", from, EISDIR);
      if (!old->children.empty()) throw FileError("rename", from, ENOTEMPTY);
    }
    for (const Node* folder = target.folder.get(); folder != nullptr; folder = folder->parent) {
      if (folder == node.get()) throw FileError("rename", from, EINVAL);
    }
    change({{source, nullptr}, {target, node}});
  }

  /// Another name of the same node: as good as a link for those who do not rename what it leads to.
  void link(const std::string& name, const std::string& path) override {
    const auto lock = locked();
    enter(Call::link, "create the link", path);
    const Place place = place_of(path, "create the link");
    const auto target = Place{place.folder, name}.node();
    if (!target) throw FileError("create the link", path, ENOENT);
    if (place.node() && !links_.contains(path)) throw FileError("create the link", path, EISDIR);
    change({{place, target}});
    links_.insert(path);
  }

  void remove(const std::string& path) override {
    const auto lock = locked();
    enter(Call::remove, "remove", path);
    const auto node = require(path, "remove");
    if (!node->children.empty() && links_.erase(path) == 0) throw FileError("remove", path, ENOTEMPTY);
    change({{place_of(path, "remove"), nullptr}});
  }

  bool make_directory(const std::string& path) override {
    const auto lock = locked();
    enter(Call::make_directory, "create the folder", path);
    if (split(path).empty()) return false;
    const Place place = place_of(path, "create the folder");
    if (place.node()) return false;
    auto node = std::make_shared<Node>();
    node->is_directory = true;
    change({{place, node}});
    return true;
  }

  std::vector<std::string> list(const std::string& path) override {
    const auto lock = locked();
    enter(Call::list, "list", path);
    std::vector<std::string> names;
    for (const auto& [name, node] : folder(path, "list")->children) names.push_back(name);
    return names;
  }

  void sync_directory(const std::string& path) override {
    const auto lock = locked();
    enter(Call::sync_directory, "sync the folder", path);
    const auto synced = folder(path, "sync the folder");
    // With the changes in this folder goes what they build upon, which came before them.
    Touched needed;
    std::set<const Change*> chosen;
    for (auto change = pending_.rbegin(); change != pending_.rend(); ++change) {
      const bool here = std::any_of(change->begin(), change->end(),
                                    [&](const Entry& entry) { return entry.place.folder == synced; });
      if (!here && !needed.precedes(*change)) continue;
      needed.add(*change);
      chosen.insert(&*change);
    }
    std::vector<Change> rest;
    for (const Change& change : pending_) {
      if (chosen.count(&change) == 0) {
        rest.push_back(change);
      } else {
        apply(change, [](Node& node) -> Names& { return node.children_on_disk; });
      }
    }
    pending_ = std::move(rest);
  }

  std::unique_ptr<FileLock> try_lock(const std::string& path, LockKind kind) override {
    const auto lock = locked();
    enter(Call::try_lock, "lock", path);
    file_to_write(path);
    int& holders = locks_[path];
    if (holders == kExclusive || (kind == LockKind::exclusive && holders > 0)) return nullptr;
    holders = kind == LockKind::exclusive ? kExclusive : holders + 1;
    return std::make_unique<Lock>(*this, path);
  }

  std::optional<Status> status(const std::string& path) override {
    const auto lock = locked();
    enter(Call::status, "look at", path);
    try {
      const auto node = require(path, "look at");
      return Status{node->is_directory, node->content.size()};
    } catch (const FileError&) {
      return std::nullopt;
    }
  }

  std::uint64_t free_bytes(const std::string& path) override {
    const auto lock = locked();
    enter(Call::free_bytes, "look at", path);
    require(path, "look at");
    return room();
  }

 private:
  std::unique_lock<std::recursive_mutex> locked() const { return std::unique_lock(mutex_); }

  // ------------------------------------------------------------------ what there is

  struct Node;
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  /// A file or a folder, as readers see it and as the disk has it.
  struct Node {
    bool is_directory = false;
    int links = 0;                 ///< 0: deleted
    const Node* parent = nullptr;  ///< of a folder, as readers see it
    std::string content, on_disk;
    std::vector<bool> dirty;   ///< bytes of the content that a sync has to bring to the disk
    std::size_t shortest = 0;  ///< that the content was since the last sync
    Names children, children_on_disk;

    void resize(std::size_t size) {
      content.resize(size);
      dirty.resize(size, true);
      shortest = std::min(shortest, size);
    }
    void sync() {
      on_disk.resize(content.size());
      for (std::size_t i = 0; i < content.size(); ++i) {
        if (dirty[i]) on_disk[i] = content[i];
      }
      forget_dirty();
    }
    void forget_dirty() {
      dirty.assign(content.size(), false);
      shortest = content.size();
    }
  };

  /// Where a name is, or would be.
  struct Place {
    std::shared_ptr<Node> folder;
    std::string name;

    std::shared_ptr<Node> node() const {
      const auto found = folder->children.find(name);
      return found == folder->children.end() ? nullptr : found->second;
    }
  };
  struct Entry {
    Place place;
    std::shared_ptr<Node> node;  ///< what has the name from now on; null: nothing
  };
  /// What one operation does to the names in folders: the disk gets all of it or nothing.
  using Change = std::vector<Entry>;

  template <class NamesOf>
  static void apply(const Change& change, NamesOf&& names_of) {
    for (const auto& [place, node] : change) {
      if (node) {
        names_of(*place.folder)[place.name] = node;
      } else {
        names_of(*place.folder).erase(place.name);
      }
    }
  }

  /// What changes have to do with: the names that they change, the files and folders that they name, and the
  /// folders that they are in. File systems keep the order of changes that build upon each other.
  class Touched {
   public:
    void add(const Change& change) {
      for (const auto& [place, node] : change) {
        names_.emplace(place.folder.get(), place.name);
        folders_.insert(place.folder.get());
        if (node) named_.insert(node.get());
      }
    }
    /// Whether what was added builds upon `change`.
    bool precedes(const Change& change) const {
      return any(change, [&](const Entry& entry) { return folders_.count(entry.node.get()) != 0; });
    }
    /// Whether `change` builds upon what was added.
    bool follows(const Change& change) const {
      return any(change, [&](const Entry& entry) { return named_.count(entry.place.folder.get()) != 0; });
    }

   private:
    template <class Test>
    bool any(const Change& change, Test&& test) const {
      return std::any_of(change.begin(), change.end(), [&](const Entry& entry) {
        return names_.count({entry.place.folder.get(), entry.place.name}) != 0 || test(entry);
      });
    }

    std::set<std::pair<const Node*, std::string>> names_;
    std::set<const Node*> folders_, named_;
  };

  void change(const Change& change) {
    for (const auto& [place, node] : change) {
      if (const auto old = place.node()) --old->links;
      if (!node) continue;
      ++node->links;
      node->parent = place.folder.get();
    }
    apply(change, [](Node& node) -> Names& { return node.children; });
    pending_.push_back(change);
  }

  static std::vector<std::string> split(const std::string& path) {
    std::vector<std::string> names(1);
    for (const char c : path) {
      if (c == '/') names.emplace_back();
      if (c != '/') names.back() += c;
    }
    std::erase_if(names, [](const std::string& name) { return name.empty() || name == "."; });
    return names;
  }

  std::shared_ptr<Node> require(const std::string& path, const char* operation) const {
    return walk(split(path), path, operation);
  }

  std::shared_ptr<Node> walk(const std::vector<std::string>& names, const std::string& path,
                             const char* operation) const {
    std::shared_ptr<Node> node = root_;
    for (const std::string& name : names) {
      if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
      const auto found = node->children.find(name);
      if (found == node->children.end()) throw FileError(operation, path, ENOENT);
      node = found->second;
    }
    return node;
  }

  std::shared_ptr<Node> folder(const std::string& path, const char* operation) const {
    auto node = require(path, operation);
    if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
    return node;
  }

  Place place_of(const std::string& path, const char* operation) const {
    std::vector<std::string> names = split(path);
    if (names.empty()) throw FileError(operation, path, EBUSY);  // "/"
    const std::string name = names.back();
    names.pop_back();
    auto node = walk(names, path, operation);
    if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
    return {node, name};
  }

  std::shared_ptr<Node> file_to_write(const std::string& path) {
    const Place place = place_of(path, "open");
    auto node = place.node();
    if (node && node->is_directory) throw FileError("open", path, EISDIR);
    if (!node) {
      node = std::make_shared<Node>();
      change({{place, node}});
    }
    return node;
  }

  std::uint64_t used(const Node& node) const {
    std::uint64_t sum = node.content.size();
    for (const auto& [name, child] : node.children) sum += used(*child);
    return sum;
  }
  std::uint64_t room() const { return capacity_ - std::min(capacity_, used(*root_)); }

  // ------------------------------------------------------------------ open files

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
        if (!files_.down_before_) add(bytes.substr(0, bytes.size() / 2));
        throw;
      } catch (const FileError& failed) {
        room = std::min(room, files_.bytes_of_fault_);
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

  // ------------------------------------------------------------------ faults

  /// Counts the call, and throws what it was told to throw.
  void enter(Call kind, const char* operation, const std::string& path) {
    down_before_ = down_;
    const std::size_t number = calls_++, number_of_kind = calls_of_[kind]++;
    down_ = down_ || number == crash_at_;
    if (down_) throw Crash{};
    for (const Fault& fault : faults_) {
      if (fault.kind && *fault.kind != kind) continue;
      const std::size_t at = fault.kind ? number_of_kind : number;
      if (at != fault.call && !(fault.lasting && at > fault.call)) continue;
      bytes_of_fault_ = fault.bytes;
      failed_ = kind;
      throw FileError(operation, path, fault.error);
    }
  }

  // ------------------------------------------------------------------ crashes

  /// Decides what of the unsynced reaches the disk.
  class Survival {
   public:
    explicit Survival(std::uint64_t seed) : seed_(seed), random_(seed) {}
    bool operator()() { return size(0, 1, 0) == 1; }
    /// Of something that had the size `before` on the disk, has the size `now`, and was `shortest` meanwhile.
    std::size_t size(std::size_t before, std::size_t now, std::size_t shortest) {
      if (seed_ == 0) return before;
      if (seed_ == 1) return now;
      return std::uniform_int_distribution<std::size_t>(std::min(before, shortest),
                                                        std::max(before, now))(random_);
    }

   private:
    std::uint64_t seed_;
    std::mt19937_64 random_;
  };

  static constexpr std::size_t kBlock =
      8;  ///< bytes that reach the disk together; small, as tests' files are

  static std::string surviving_content(const Node& node, Survival& survives) {
    const std::size_t now = node.content.size();
    const std::size_t size = survives.size(node.on_disk.size(), now, node.shortest);
    std::string content = node.on_disk;
    content.resize(size);  // zeros where the size has reached the disk before the bytes
    for (std::size_t begin = 0; begin < size; begin += kBlock) {
      if (!survives()) continue;
      for (std::size_t i = begin; i < std::min({begin + kBlock, size, now}); ++i) {
        if (node.dirty[i]) content[i] = node.content[i];
      }
    }
    return content;
  }

  FaultyFilesystem(const FaultyFilesystem& before, Survival survives)
      : capacity_(before.capacity_), links_(before.links_) {
    std::map<const Node*, Names> names;
    const auto names_of = [&](const Node& node) -> Names& {
      return names.try_emplace(&node, node.children_on_disk).first->second;
    };
    Touched lost;
    for (const Change& change : before.pending_) {
      if (survives() && !lost.follows(change)) {
        apply(change, names_of);
      } else {
        lost.add(change);
      }
    }
    std::map<const Node*, std::shared_ptr<Node>> copies;
    const std::function<std::shared_ptr<Node>(const Node&)> copy = [&](const Node& node) {
      std::shared_ptr<Node>& made = copies[&node];
      if (made) return made;
      made = std::make_shared<Node>();
      made->is_directory = node.is_directory;
      made->content = made->on_disk = surviving_content(node, survives);
      made->forget_dirty();
      const std::shared_ptr<Node> result = made;
      for (const auto& [name, child] : names_of(node)) {
        const std::shared_ptr<Node> copied = copy(*child);
        ++copied->links;
        copied->parent = result.get();
        result->children[name] = result->children_on_disk[name] = copied;
      }
      return result;
    };
    root_ = copy(*before.root_);
  }

  std::shared_ptr<Node> root_;
  std::vector<Change> pending_;  ///< to names, which no sync of their folder has brought to the disk
  std::vector<Fault> faults_;
  std::optional<std::size_t> crash_at_;
  std::uint64_t capacity_ = std::numeric_limits<std::uint64_t>::max();
  std::set<std::string> links_;       ///< paths
  std::map<std::string, int> locks_;  ///< by path: how many hold it, or kExclusive
  mutable std::recursive_mutex mutex_;
  std::size_t calls_ = 0;
  std::map<Call, std::size_t> calls_of_;
  std::size_t bytes_of_fault_ = 0;
  std::optional<Call> failed_;
  bool down_ = false, down_before_ = false;  ///< crashed; crashed before the last call
};

}  // namespace cxtrain::test
