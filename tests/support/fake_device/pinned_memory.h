#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <map>
#include <memory>

namespace cxtrain::test {

/// Memory of the host that devices copy from and to on their own. A block that was freed while such a copy
/// is under way lives until it ends.
class PinnedMemory final : public c10::Allocator {
 public:
  static PinnedMemory& instance();

  c10::DataPtr allocate(std::size_t bytes) override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  /// Keeps the block that has this address; null where none has.
  std::shared_ptr<const void> block_of(const void* address) const;

 private:
  struct Block;
  std::map<const std::byte*, std::weak_ptr<Block>> blocks_;
};

}  // namespace cxtrain::test
