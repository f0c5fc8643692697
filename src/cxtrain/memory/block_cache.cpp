#include "cxtrain/memory/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace cxtrain {
namespace {

void* map(std::size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  // One fault for 2 MiB instead of 512, where the kernel allows it. Neighbouring blocks share huge pages.
  madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

BlockCache::~BlockCache() {
  for (const Block& block : free_) munmap(block.data, block.bytes);
}

void* BlockCache::take(std::size_t bytes) {
  bytes = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  // The best fit; among equals the one freed last, which the processor's caches may still hold.
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->bytes < bytes || block->bytes > bytes + bytes / 8) continue;
    if (best == free_.end() || block->bytes <= best->bytes) best = block;
  }
  Block taken{nullptr, bytes};
  if (best != free_.end()) {
    taken = *best;
    free_.erase(best);
    cached_ -= taken.bytes;
  } else {
    make_room(bytes);
    taken.data = map(bytes);
  }
  used_.emplace(taken.data, taken.bytes);
  live_ += taken.bytes;
  peak_live_ = std::max(peak_live_, live_);
  return taken.data;
}

/// Before `bytes` more are mapped.
void BlockCache::make_room(std::size_t bytes) {
  const std::size_t peak = std::max(peak_live_, live_ + bytes);
  const std::size_t allowed = peak + peak / 2;
  while (!free_.empty() && live_ + cached_ + bytes > allowed) unmap_oldest();
}

void BlockCache::unmap_oldest() noexcept {
  munmap(free_.front().data, free_.front().bytes);
  cached_ -= free_.front().bytes;
  free_.pop_front();
}

void BlockCache::clear() noexcept {
  const std::lock_guard lock(mutex_);
  while (!free_.empty()) unmap_oldest();
  peak_live_ = live_;
}

bool BlockCache::give(void* data) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used = used_.find(data);
  if (used == used_.end()) return false;
  const Block block{data, used->second};
  used_.erase(used);
  live_ -= block.bytes;
  try {
    free_.push_back(block);
    cached_ += block.bytes;
  } catch (const std::bad_alloc&) {
    munmap(block.data, block.bytes);
  }
  return true;
}

}  // namespace cxtrain
