#include "cxtrain/base/kernel_files.h"

#include <unistd.h>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("texts and numbers of the kernel's files", "[base]") {
  CHECK(kernel_text("/proc/sys/kernel/ostype") == "Linux");
  CHECK(kernel_number("/proc/self/stat") == getpid());
  CHECK_FALSE(kernel_number("/proc/sys/kernel/ostype"));
}

TEST_CASE("a file that is absent, or whose reads fail, has no text and no number", "[base]") {
  // A folder and this file can be opened; reads fail.
  for (const char* path : {"/", "/proc/self/mem", "/no/such/file"}) {
    CAPTURE(path);
    CHECK(kernel_text(path).empty());
    CHECK_FALSE(kernel_number(path));
  }
}

}  // namespace
}  // namespace cxtrain
