#include "support/fake_device/pinned_memory.h"

#include "support/fake_device/order_checker.h"

namespace cxtrain::test {

/// An allocation; all copies that use it hold it, too.
struct PinnedMemory::Block {
  explicit Block(std::size_t size) : bytes(size), memory(new std::byte[size]) {
    OrderChecker::instance().add_memory(memory.get(), size, nullptr);
  }
  ~Block() {
    const FakeLock lock(fake_mutex());
    OrderChecker::instance().remove_memory(memory.get());
    instance().blocks_.erase(memory.get());
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::size_t bytes;
  std::unique_ptr<std::byte[]> memory;
};

PinnedMemory& PinnedMemory::instance() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

c10::DataPtr PinnedMemory::allocate(std::size_t bytes) {
  using Owner = std::shared_ptr<Block>;
  const FakeLock lock(fake_mutex());
  auto owner = std::make_unique<Owner>(std::make_shared<Block>(bytes == 0 ? 1 : bytes));
  std::byte* const begin = (*owner)->memory.get();
  blocks_[begin] = *owner;
  return {begin, owner.release(), [](void* held) { delete static_cast<Owner*>(held); },
          c10::Device(c10::DeviceType::CPU)};
}

void PinnedMemory::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

std::shared_ptr<const void> PinnedMemory::block_of(const void* address) const {
  const FakeLock lock(fake_mutex());
  const auto* const wanted = static_cast<const std::byte*>(address);
  auto above = blocks_.upper_bound(wanted);
  if (above == blocks_.begin()) return nullptr;
  --above;
  const std::shared_ptr<Block> block = above->second.lock();
  return block && wanted < above->first + block->bytes ? block : nullptr;
}

}  // namespace cxtrain::test
