#include "cxtrain/base/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#include "cxtrain/base/file_descriptor.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

/// KiB of shared memory in this process behind huge pages.
long huge_kib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string name; file >> name;) {
    long kib = 0;
    if (name == "ShmemPmdMapped:" && file >> kib) return kib;
  }
  return 0;
}

TEST_CASE("reserved addresses begin with a huge page, and end with the bytes") {
  for (const std::size_t bytes : {std::size_t{1}, kHugePage, 3 * kHugePage + 5000}) {
    CAPTURE(bytes);
    std::byte* const memory = reserve_addresses(bytes);
    REQUIRE(memory != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(memory) % kHugePage == 0);
    REQUIRE(mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0);
    memory[bytes - 1] = std::byte{1};
    CHECK(munmap(memory, bytes) == 0);
  }
}

TEST_CASE("huge pages lie within the bytes, and keep their values") {
  constexpr std::size_t kBytes = 4 * kHugePage;
  const FileDescriptor file(memfd_create("huge_pages_test", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.get(), kBytes) == 0);
  std::byte* const memory = reserve_addresses(kBytes);
  REQUIRE(mmap(memory, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0) == memory);
  std::memset(memory, 7, kBytes);
  const long before = huge_kib();
  use_huge_pages(memory + 1, kHugePage);  // reaches into two, and covers none
  CHECK(huge_kib() == before);
  use_huge_pages(memory + kHugePage - 1, 2 * kHugePage + 1);
  const long taken = huge_kib() - before;
  if (taken == 0) WARN("this kernel puts no huge pages behind shared memory");
  CHECK((taken == 0 || taken == 4096));
  CHECK(std::count(memory, memory + kBytes, std::byte{7}) == kBytes);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace cxtrain
