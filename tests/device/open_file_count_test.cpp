#include "cxtrain/device/resources.h"

#include <fstream>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

TEST_CASE("the files that a process holds are counted, each once") {
  const OpenFileCount before = open_file_count();
  CHECK(before.libraries > 3);  // the program, the loader, the C and the C++ library
  const TempDir dir;
  const std::string path = dir.write("file", "text");
  const std::ifstream once(path), again(path), device("/dev/null"), state("/proc/self/status");
  const OpenFileCount after = open_file_count();
  CHECK(after.libraries == before.libraries);
  CHECK(after.others == before.others + 1);
}

}  // namespace
}  // namespace cxtrain::test
