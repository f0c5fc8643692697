#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

namespace cxtrain::test {

/// Files in memory, as a disk with a write cache has them: readers see the newest content and names at once,
/// while the disk has what was synced, and in any order some of the rest. "/" exists; other paths are
/// absolute, or relative to "/". For one thread at a time.
class CachedDisk {
 public:
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

  CachedDisk() : root_(std::make_shared<Node>()) { root_->is_directory = true; }
  CachedDisk(const CachedDisk&) = delete;
  CachedDisk& operator=(const CachedDisk&) = delete;

  /// What may be left after a crash at this moment: everything that was synced, and of the rest what `seed`
  /// decides: nothing for 0, everything for 1, else some of it.
  CachedDisk after_crash(std::uint64_t seed) const { return CachedDisk(*this, Survival(seed)); }

  // These throw a FileError of `operation` and `path`, as Linux would refuse it.

  /// What has this name.
  std::shared_ptr<Node> require(const std::string& path, const char* operation) const {
    return walk(split(path), path, operation);
  }

  /// The same, where it is a folder.
  std::shared_ptr<Node> folder(const std::string& path, const char* operation) const {
    auto node = require(path, operation);
    if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
    return node;
  }

  /// Where the name is, or would be; its folder exists.
  Place place_of(const std::string& path, const char* operation) const {
    std::vector<std::string> names = split(path);
    if (names.empty()) throw FileError(operation, path, EBUSY);  // "/"
    const std::string name = names.back();
    names.pop_back();
    auto node = walk(names, path, operation);
    if (!node->is_directory) throw FileError(operation, path, ENOTDIR);
    return {node, name};
  }

  /// The file of this name, which is made where there is none.
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

  static bool is_root(const std::string& path) { return split(path).empty(); }

  /// Changes names, for readers at once.
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

  /// Brings the names in a folder to the disk.
  void sync_names(const std::shared_ptr<Node>& synced) {
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

  /// Bytes of all files.
  std::uint64_t used() const { return used(*root_); }

 private:
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

  static std::vector<std::string> split(const std::string& path) {
    std::vector<std::string> names(1);
    for (const char c : path) {
      if (c == '/') names.emplace_back();
      if (c != '/') names.back() += c;
    }
    std::erase_if(names, [](const std::string& name) { return name.empty() || name == "."; });
    return names;
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

  static std::uint64_t used(const Node& node) {
    std::uint64_t sum = node.content.size();
    for (const auto& [name, child] : node.children) sum += used(*child);
    return sum;
  }

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

  CachedDisk(const CachedDisk& before, Survival survives) {
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
};

}  // namespace cxtrain::test
