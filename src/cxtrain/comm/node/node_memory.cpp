#include "cxtrain/comm/node/node_memory.h"

#include <algorithm>
#include <functional>
#include <map>

#include "cxtrain/base/huge_pages.h"
#include "cxtrain/memory/block_cache.h"

namespace cxtrain {
namespace {

/// How many slots of each size, the largest first.
using Slots = std::map<std::size_t, std::size_t, std::greater<>>;

Slots slots(std::span<const std::size_t> sizes) {
  Slots result;
  for (const std::size_t bytes : sizes) {
    if (bytes >= MemPool::kSmallest) ++result[bytes];
  }
  for (auto& [bytes, count] : result) ++count;
  return result;
}

}  // namespace

std::size_t MemPool::bytes_for(std::span<const std::size_t> sizes) {
  std::size_t total = 0;
  for (const auto& [bytes, count] : slots(sizes)) total += count * BlockCache::whole_pages(bytes);
  return total;
}

MemPool::MemPool(std::shared_ptr<std::byte> memory, std::span<const std::size_t> sizes)
    : memory_(std::move(memory)) {
  std::byte* next = memory_.get();
  for (const auto& [bytes, count] : slots(sizes)) {
    Size size{bytes, next + count * BlockCache::whole_pages(bytes), next, {}};
    for (std::size_t i = count; i-- > 0;) size.free.push_back(next + i * BlockCache::whole_pages(bytes));
    next = size.end;
    sizes_.push_back(std::move(size));
  }
}

void* MemPool::take(std::size_t bytes) {
  if (bytes < kSmallest) return nullptr;
  const auto size = std::ranges::lower_bound(sizes_, bytes, std::greater{}, &Size::bytes);
  if (size == sizes_.end() || size->bytes != bytes || size->free.empty()) return nullptr;
  void* const slot = size->free.back();
  size->free.pop_back();
  if (slot == size->unused) {
    size->unused += BlockCache::whole_pages(bytes);
    use_huge_pages(static_cast<std::byte*>(slot), bytes);
  }
  ++taken_;
  return slot;
}

void MemPool::give(void* slot) noexcept {
  const auto size = std::ranges::upper_bound(sizes_, slot, std::less{}, &Size::end);
  size->free.push_back(slot);  // it had room for all
  --taken_;
}

}  // namespace cxtrain
