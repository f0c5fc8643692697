#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/checkpoint/shard_files.h"

namespace cxtrain {

/// A copy of what a rank writes, laid out as its files are, so that training goes on while it is written. The
/// memory is kept from one checkpoint to the next: fresh memory takes several times as long to fill.
///
/// If the memory is limited, the copy is made in rounds: `begin`, then `next` until no round is left.
class Staging {
 public:
  struct File {
    std::string name;
    std::string_view bytes;  ///< the next part of the file's content; valid until the next `next`
  };
  /// A smaller limit counts as this, in bytes.
  static constexpr std::size_t kLeast = std::size_t{1} << 20;

  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Plans the copy of these tensors, which must not change until the last `next`. `most`: bytes of a round;
  /// 0: everything is one round. Throws std::bad_alloc, or an Error of a header.
  void begin(std::span<const PlannedFile> files, std::size_t most);
  /// Copies the tensors of the next round as they are now, and waits for their devices.
  void next();
  /// Whether another round is left.
  bool has_next() const { return file_ < planned_.size(); }
  /// Returns the parts of files that the last `next` has copied, one file after the other.
  std::span<const File> files() const { return files_; }

 private:
  struct Planned {
    std::string name, header;
    std::vector<NamedTensor> tensors;
  };
  void reserve(std::size_t bytes);
  /// Copies as much of the planned file as fits; returns the bytes.
  std::size_t copy_part(const Planned& file, char* to, std::size_t room);

  char* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t round_ = 0;  ///< bytes of a round
  std::vector<Planned> planned_;
  // The place of the next round. Part 0 of a file is its header, the other parts are its tensors.
  std::size_t file_ = 0, part_ = 0, offset_ = 0;
  std::vector<File> files_;
};

}  // namespace cxtrain
