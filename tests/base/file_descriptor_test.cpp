#include "cxtrain/base/file_descriptor.h"

#include <sys/stat.h>
#include <unistd.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

using namespace cxtrain;
using test::code;
using test::contains;
using test::error_of;

TEST_CASE("only regular files are opened, and nothing else is waited for", "[base]") {
  const test::TempDir dir;
  REQUIRE(mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { open_regular_file(dir.file("pipe")); }),
             contains(code(MessageCode::file_failed)) && contains("pipe"));
  CHECK_THAT(error_of([&] { open_regular_file("/dev/zero"); }),
             contains(code(MessageCode::file_failed)) && contains("device"));
  CHECK_THAT(error_of([&] { open_regular_file("/dev/null"); }),
             contains(code(MessageCode::file_failed)) && contains("device"));
  CHECK_THAT(error_of([&] { open_regular_file(dir.path()); }),
             contains(code(MessageCode::file_failed)) && contains("directory"));
  CHECK_THAT(error_of([&] { open_regular_file(dir.file("nothing")); }),
             contains(code(MessageCode::file_failed)) && contains("No such file"));
  CHECK_THAT(error_of([&] { open_regular_file(std::string(300, 'x')); }),
             contains(code(MessageCode::file_failed)) && contains("File name too long"));
  REQUIRE(symlink("loop", dir.file("loop").c_str()) == 0);
  CHECK_THROWS_AS(open_regular_file(dir.file("loop")), DataError);
}

TEST_CASE("a small file is read whole, and a large one refused", "[base]") {
  const test::TempDir dir;
  CHECK(read_small_file(dir.write("empty", ""), 1024).empty());
  CHECK(read_small_file(dir.write("text", std::string(1024, 'x')), 1024) == std::string(1024, 'x'));
  CHECK_THAT(error_of([&] { read_small_file(dir.write("long", std::string(1025, 'x')), 1024); }),
             contains(code(MessageCode::file_failed)) && contains("1 KiB"));
}
