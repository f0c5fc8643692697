#include "cxtrain/base/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "cxtrain/base/align.h"

namespace cxtrain {
namespace {

/// MADV_COLLAPSE, which headers before Linux 6.1 do not have.
constexpr int kCollapse = 25;

std::byte* next_huge_page(std::byte* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return address + (round_up(at, std::uintptr_t{kHugePage}) - at);
}

}  // namespace

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(getpagesize());
  return bytes;
}

std::byte* reserve_addresses(std::size_t bytes) noexcept {
  const std::size_t pages = round_up(bytes, page_bytes());
  void* const memory =
      mmap(nullptr, pages + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(memory);
  std::byte* const begin = next_huge_page(first);
  const auto before = static_cast<std::size_t>(begin - first);
  if (before > 0) munmap(first, before);
  munmap(begin + pages, kHugePage - before);
  return begin;
}

void use_huge_pages(std::byte* data, std::size_t bytes) noexcept {
  std::byte* const begin = next_huge_page(data);
  if (begin + kHugePage > data + bytes) return;
  const std::size_t count = static_cast<std::size_t>(data + bytes - begin) / kHugePage;
  // The kernel wants one small page to be there.
  for (std::size_t i = 0; i < count; ++i)
    static_cast<void>(*static_cast<volatile std::byte*>(begin + i * kHugePage));
  madvise(begin, count * kHugePage, kCollapse);
}

}  // namespace cxtrain
