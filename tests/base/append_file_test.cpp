#include "cxtrain/base/append_file.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "cxtrain/base/filesystem.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/every_fault.h"
#include "support/temp_dir.h"

using namespace cxtrain;
using test::FaultyFilesystem;
using Call = FaultyFilesystem::Call;

namespace {

/// Appends lines, flushing after each, and goes on after errors. Returns how many flushes failed.
int append_lines(Filesystem& files, int first, int last) {
  int failures = 0;
  try {
    AppendFile file(files, "/metrics");
    for (int line = first; line <= last; ++line) {
      file.append("line " + std::to_string(line));
      file.append(" of many\n");
      try {
        file.flush();
      } catch (const FileError&) {
        ++failures;
      }
    }
  } catch (const FileError&) {
    ++failures;  // it cannot be opened
  }
  return failures;
}

/// The numbers of the lines, each of which has to be whole.
std::vector<int> lines_of(const std::string& content) {
  CHECK((content.empty() || content.back() == '\n'));
  std::vector<int> numbers;
  std::istringstream text(content);
  for (std::string line; std::getline(text, line);) {
    const int number = std::stoi(line.substr(5));
    CHECK(line == "line " + std::to_string(number) + " of many");
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

TEST_CASE("a file of rows has whole rows whichever call fails, and goes on afterwards", "[append]") {
  const auto begin = [](FaultyFilesystem& files) { CHECK(append_lines(files, 0, 0) == 0); };
  int failures = 0;
  const auto go_on = [&](FaultyFilesystem& files) { failures = append_lines(files, 1, 3); };
  test::fail_at_every_call(begin, go_on, [&](FaultyFilesystem& files, bool lasting) {
    CHECK((failures > 0) == files.failed().has_value());
    if (lasting && files.failed()) return;  // below: the taking back may have failed as well
    const std::size_t expected = !files.failed() ? 4 : files.failed() == Call::append_to ? 1 : 3;
    CHECK(lines_of(read_whole_file(files, "/metrics")).size() == expected);
    CHECK(append_lines(files, 4, 4) == 0);
    CHECK(lines_of(read_whole_file(files, "/metrics")).back() == 4);
  });
}

TEST_CASE("a row that could not be taken back at once is taken back before the next", "[append]") {
  for (std::size_t call = 0; call < 7; ++call) {
    INFO("from call " << call << " on everything fails, for a while");
    FaultyFilesystem files;
    AppendFile file(files, "/metrics");
    file.append("line 0 of many\n");
    file.flush();
    files.fail({.call = files.calls() + call, .error = EIO, .bytes = 7, .lasting = true});
    for (const char* row : {"line 1 of many\n", "line 2 of many\n"}) {
      file.append(row);
      try {
        file.flush();
      } catch (const FileError&) {
        CHECK(files.failed());
      }
    }
    files.heal();
    file.append("line 3 of many\n");
    file.flush();
    const std::vector<int> lines = lines_of(read_whole_file(files, "/metrics"));
    CHECK(lines.front() == 0);
    CHECK(lines.back() == 3);
  }
}

TEST_CASE("a disk that becomes full loses whole rows, and takes rows again when there is room", "[append]") {
  FaultyFilesystem files;
  files.set_capacity(40);
  CHECK(append_lines(files, 0, 5) == 4);  // of 15 bytes each
  CHECK(lines_of(read_whole_file(files, "/metrics")) == std::vector<int>{0, 1});
  files.set_capacity(1000);
  CHECK(append_lines(files, 6, 7) == 0);
  CHECK(lines_of(read_whole_file(files, "/metrics")) == std::vector<int>{0, 1, 6, 7});
}

TEST_CASE("rows count as written when the file has them", "[append]") {
  FaultyFilesystem files;
  AppendFile file(files, "/metrics");
  file.append("first\n");
  file.append("second\n");
  CHECK(file.appends_written() == 0);
  file.flush();
  CHECK(file.appends_written() == 2);
  files.fail({.call = files.calls(), .error = EIO, .lasting = true});
  file.append("lost\n");
  CHECK_THROWS_AS(file.flush(), FileError);
  files.heal();
  file.append("third\n");
  file.flush();
  CHECK(file.appends_written() == 3);
}

TEST_CASE("a file of rows that is deleted, or replaced, is noticed", "[append]") {
  FaultyFilesystem files;
  AppendFile file(files, "/metrics");
  file.append("x\n");
  file.flush();
  const bool replaced = GENERATE(false, true);
  if (replaced) {
    write_atomically(files, "/metrics", "another\n");
  } else {
    files.remove("/metrics");
  }
  file.append("y\n");
  CHECK_THAT(test::error_of([&] { file.flush(); }), test::contains(test::code(MessageCode::file_failed)) &&
                                                        test::contains("No such file or directory") &&
                                                        test::contains("'/metrics'"));
  if (replaced) CHECK(read_whole_file(files, "/metrics") == "another\n");
}

TEST_CASE("rows wait in a buffer, and are written when it is full, flushed or destroyed", "[append]") {
  FaultyFilesystem files;
  {
    AppendFile file(files, "/metrics");
    CHECK(file.path() == "/metrics");
    file.append("x");
    CHECK(read_whole_file(files, "/metrics").empty());
    file.append(std::string(1 << 16, 'y'));
    CHECK(read_whole_file(files, "/metrics").size() == 1 + (1 << 16));
    file.append("z");
  }
  CHECK(read_whole_file(files, "/metrics").back() == 'z');
  {
    AppendFile file(files, "/metrics");
    file.append("lost");
    files.fail({.call = files.calls(), .error = EIO, .lasting = true});
  }  // and nobody is disturbed
  files.heal();
  CHECK(read_whole_file(files, "/metrics").back() == 'z');
}

TEST_CASE("a device has no rows to take back", "[append]") {
  RealFilesystem files;
  AppendFile full(files, "/dev/full");
  for (int i = 0; i < 2; ++i) {
    full.append("x");
    CHECK_THAT(test::error_of([&] { full.flush(); }), test::contains(test::code(MessageCode::file_failed)) &&
                                                          test::contains("No space left on device") &&
                                                          test::contains("'/dev/full'"));
  }
}

TEST_CASE("what a file has no room for is dropped as a whole", "[append]") {
  const test::TempDir dir;
  RealFilesystem files;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    AppendFile file(files, dir.file("f"));
    file.append("first line\n");
    file.flush();
    const rlimit limit{15, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    file.append("second line\n");
    try {
      file.flush();
    } catch (const Error&) {
      const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
      setrlimit(RLIMIT_FSIZE, &none);
      file.append("third line\n");
      file.flush();
      _exit(0);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(test::slurp(dir.file("f")) == "first line\nthird line\n");
}
