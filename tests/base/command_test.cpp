#include "cxtrain/base/command.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/error_text.h"

namespace cxtrain::test {
namespace {

CommandEnd shell(const std::string& script, double seconds = 60) {
  const std::vector<std::string> words{"sh", "-c", script};
  return run_command(words, seconds);
}

TEST_CASE("a command's output, errors and exit status come back") {
  const CommandEnd end = shell("echo out; echo err >&2; exit 3");
  CHECK(end.status == 3);
  CHECK(end.output == "out\nerr\n");
  CHECK(shell("kill -TERM $$").status == 128 + 15);
  CHECK(shell("cat").status == 0);  // there is nothing to read
}

TEST_CASE("a command that does not end is killed") {
  const CommandEnd end = shell("echo begun; exec sleep 1000", 2);
  CHECK(end.status == 128 + 9);
  CHECK(end.output == "begun\n");
  // It may have closed what is read.
  CHECK(shell("exec >/dev/null 2>&1 sleep 1000", 2).status == 128 + 9);
}

TEST_CASE("a copy of the process answers, and a copy that does not end is killed") {
  const std::string long_text(100'000, 'x');
  const auto answer = answer_of_child([&] { return long_text; }, 60);
  REQUIRE(answer.has_value());
  CHECK(answer->in_time);
  CHECK(answer->text == long_text);
  CHECK(answer->wait_status == 0);
  const auto none = answer_of_child(
      []() -> std::string {
        for (;;) pause();
      },
      1);
  REQUIRE(none.has_value());
  CHECK_FALSE(none->in_time);
  CHECK(shell_status(none->wait_status) == 128 + 9);
}

TEST_CASE("a program that is not there is named") {
  // A folder in $PATH that may not be entered would be the error that the system reports.
  const EnvironmentVariable path("PATH", "/usr/bin");
  const std::vector<std::string> words{"cxtrain_no_such_program"};
  CHECK_THAT(error_of([&] { run_command(words, 1); }), contains(code(MessageCode::launch_failed)) &&
                                                           contains("No such file or directory") &&
                                                           contains("cxtrain_no_such_program"));
}

}  // namespace
}  // namespace cxtrain::test
