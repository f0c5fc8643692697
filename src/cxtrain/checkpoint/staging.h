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
class Staging {
 public:
  struct File {
    std::string name;
    std::string_view bytes;  ///< the whole content; until the next `take`
  };

  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies the tensors as they are now; waits for their devices. Throws std::bad_alloc, or an Error of the
  /// header's.
  void take(std::span<const PlannedFile> files);
  std::span<const File> files() const { return files_; }

 private:
  void reserve(std::size_t bytes);

  char* memory_ = nullptr;
  std::size_t capacity_ = 0;
  std::vector<File> files_;
};

}  // namespace cxtrain
