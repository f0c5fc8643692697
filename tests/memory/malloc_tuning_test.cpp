#include "cxtrain/memory/malloc_tuning.h"

#include <malloc.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/skip.h"

using namespace cxtrain;

TEST_CASE("malloc is left alone where somebody else has a say") {
  using Environment = std::vector<std::string>;
  const auto reason = [](const Environment& environment, const char* library) {
    return reason_not_to_tune_malloc(environment, library);
  };
  CHECK(reason({"HOME=/root"}, "/lib/x86_64-linux-gnu/libc.so.6").empty());
  CHECK(reason({}, "/lib64/libc-2.28.so").empty());
  CHECK(reason({"MALLOC_ARENA_MAX=2"}, "/lib/libc.so.6") == "MALLOC_ARENA_MAX is set");
  CHECK(reason({"GLIBC_TUNABLES=glibc.malloc.trim_threshold=1"}, "/lib/libc.so.6") ==
        "GLIBC_TUNABLES is set");
  CHECK(reason({}, "/usr/lib/libjemalloc.so.2") == "malloc comes from libjemalloc.so.2");
  CHECK(reason({}, "") == "malloc comes from an unknown library");
}

TEST_CASE("a tuned malloc takes large blocks from memory that it keeps") {
  if (!tune_malloc()) return test::skip("this process's malloc is not ours to tune");
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto mapped_before = mallinfo2().hblks;
  {
    void* volatile block =
        std::malloc(kBytes);  // volatile: a compiler may leave out a pair of calls that nobody sees
    CHECK(mallinfo2().hblks == mapped_before);
    std::free(block);
  }
  CHECK(mallinfo2().fordblks >= kBytes);  // freed, but not given back
}
