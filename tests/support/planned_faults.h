#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

namespace cxtrain::test {

/// The machine has gone down: thrown by the call that was told to crash, and by every call after it. No
/// std::exception, so that code which handles errors does not take it for one.
struct Crash {};

/// Which calls of a file system fail, and at which one the machine goes down. Counts all calls.
class PlannedFaults {
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
  /// The call with this number, counted from 0, throws Crash.
  void crash_at(std::size_t call) { crash_at_ = call; }

  /// The kind of the call that was told to fail and did, last.
  std::optional<Call> failed() const { return failed_; }
  /// How many calls there were, of all kinds or of one.
  std::size_t calls() const { return calls_; }
  std::size_t calls(Call kind) const {
    const auto found = calls_of_.find(kind);
    return found == calls_of_.end() ? 0 : found->second;
  }

 protected:
  PlannedFaults() = default;

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

  /// What the write that was told to fail still adds.
  std::size_t bytes_of_fault() const { return bytes_of_fault_; }
  /// Whether the machine was down before the last call.
  bool was_down() const { return down_before_; }

 private:
  std::vector<Fault> faults_;
  std::optional<std::size_t> crash_at_;
  std::size_t calls_ = 0;
  std::map<Call, std::size_t> calls_of_;
  std::size_t bytes_of_fault_ = 0;
  std::optional<Call> failed_;
  bool down_ = false, down_before_ = false;
};

}  // namespace cxtrain::test
