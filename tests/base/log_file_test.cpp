#include "cxtrain/base/log.h"

#include <cerrno>

#include "support/catch.h"
#include "support/faulty_filesystem.h"

using namespace cxtrain;

TEST_CASE("every record is a line of the rank's log file, as far as the disk takes it", "[log]") {
  test::FaultyFilesystem files;
  {
    Log log(/*rank=*/7, /*quiet=*/true);
    log.open_file(files, "/");
    log_info("the first");
    CHECK_THAT(read_whole_file(files, "/rank_7.log"), Catch::Matchers::EndsWith(" rank 7 info: the first\n"));
    files.fail({.call = files.calls(), .error = ENOSPC, .bytes = 5, .lasting = true});
    CHECK_NOTHROW(log_info("lost"));
    files.heal();
    log_info("the last");
    files.make_directory("/next");
    log.open_file(files, "/next");
    log_info("elsewhere");
    CHECK(read_whole_file(files, "/next/rank_7.log").ends_with(" rank 7 info: elsewhere\n"));
  }
  log_info("after the log has gone");
  const std::string text = read_whole_file(files, "/rank_7.log");
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("lost") == std::string::npos);
  CHECK_THAT(text, Catch::Matchers::EndsWith(" rank 7 info: the last\n"));

  Log log(7, true);
  CHECK_THROWS_WITH(log.open_file(files, "/none"), test::contains("cannot open '/none/rank_7.log'"));
}
