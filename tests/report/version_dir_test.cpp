#include "cxtrain/report/run_files.h"

#include <algorithm>
#include <set>
#include <thread>

#include "cxtrain/base/filesystem.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/every_fault.h"
#include "support/temp_dir.h"

using namespace cxtrain;
using test::FaultyFilesystem;

TEST_CASE("a run gets the next free version", "[version]") {
  FaultyFilesystem files;
  const std::string logs = "/new/folder/cxtrain_logs";
  CHECK(make_version_dir(files, "/new/folder") == logs + "/version_0");
  CHECK(make_version_dir(files, "/new/folder") == logs + "/version_1");
  files.make_directory(logs + "/version_7");
  files.make_directory(logs + "/version_x9");
  CHECK(make_version_dir(files, "/new/folder") == logs + "/version_8");
  files.make_directory(logs + "/version_2147483647");
  CHECK(make_version_dir(files, "/new/folder") == logs + "/version_2147483648");
  files.make_directory(logs + "/version_9223372036854775807");
  files.make_directory(logs + "/version_99999999999999999999");
  CHECK(make_version_dir(files, "/new/folder/") == logs + "/version_2147483649");
  CHECK(files.status(logs + "/version_2147483649").value().is_directory);
}

TEST_CASE("folders that others name like runs neither hide a run nor take the last number", "[version]") {
  FaultyFilesystem files;
  const std::string logs = "/runs/cxtrain_logs";
  CHECK(make_version_dir(files, "/runs") == logs + "/version_0");
  for (const char* name :
       {"version_00", "version_-1", "version_9223372036854775806", "version_999999999999999999"})
    files.make_directory(logs + "/" + name);
  CHECK(make_version_dir(files, "/runs") == logs + "/version_1");
  const std::vector<std::string> found = version_dirs(files, "/runs");
  CHECK(std::count(found.begin(), found.end(), logs + "/version_0") == 1);
  CHECK(std::count(found.begin(), found.end(), logs + "/version_1") == 1);
  CHECK(std::count(found.begin(), found.end(), logs + "/version_00") == 0);
}

TEST_CASE("a run that another one overtakes gets the version after", "[version]") {
  struct : FaultyFilesystem {
    std::vector<std::string> list(const std::string& path) override {
      std::vector<std::string> names = FaultyFilesystem::list(path);
      make_directory(path + "/version_0");
      make_directory(path + "/version_1");
      return names;
    }
  } files;
  CHECK(make_version_dir(files, "/runs") == "/runs/cxtrain_logs/version_2");
}

TEST_CASE("runs that start together get different versions", "[version]") {
  const test::TempDir dir;
  RealFilesystem files;
  std::vector<std::string> paths(8);
  {
    std::vector<std::jthread> runs;
    for (std::string& path : paths) runs.emplace_back([&] { path = make_version_dir(files, dir.path()); });
  }
  CHECK(std::set<std::string>(paths.begin(), paths.end()).size() == paths.size());
  for (const std::string& path : paths) CHECK(files.status(path).value().is_directory);
}

TEST_CASE("a run's folder that cannot be made is refused, with the option that names it", "[version]") {
  const test::TempDir dir;
  RealFilesystem files;
  dir.write("file", "");
  try {
    make_version_dir(files, dir.file("file"));
    FAIL("no error");
  } catch (const ConfigError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems()[0].option == "trainer.default_root_dir");
    CHECK(error.problems()[0].code == MessageCode::file_failed);
    CHECK_THAT(error.problems()[0].message,
               test::contains("'" + dir.file("file") + "'") && test::contains("Not a directory"));
  }

  bool refused = false;
  test::fail_at_every_call([](FaultyFilesystem&) {},
                           [&](FaultyFilesystem& disk) {
                             refused = false;
                             try {
                               make_version_dir(disk, "/runs");
                             } catch (const ConfigError& error) {
                               refused = true;
                               CHECK(error.message_code() == MessageCode::file_failed);
                             }
                           },
                           [&](FaultyFilesystem& disk, bool) {
                             CHECK(refused == disk.failed().has_value());
                             CHECK(disk.status(make_version_dir(disk, "/runs")).value().is_directory);
                           });
}

TEST_CASE("a run's folder outlives a crash", "[version]") {
  std::string path;
  test::crash_at_every_call(
      [](FaultyFilesystem&) {},
      [&](FaultyFilesystem& files) { path = make_version_dir(files, "/new/folder"); },
      [&](FaultyFilesystem& disk, bool finished) { CHECK((!finished || disk.status(path).has_value())); });
}

TEST_CASE("a run that goes on in its folder does not keep word of its earlier end", "[version]") {
  FaultyFilesystem files;
  const std::string path = make_version_dir(files, "/runs");
  files.create(path + "/run.json")->write("{}");
  files.create(path + "/metrics.csv")->write("epoch,step\n");
  CHECK(reopen_run_dir(files, path, 0));
  CHECK(files.list(path) == std::vector<std::string>{"metrics.csv", "run.json", "run.lock"});
  remove_end_of_run(files, path);  // once nothing can refuse it any more
  remove_end_of_run(files, path);
  CHECK(files.list(path) == std::vector<std::string>{"metrics.csv", "run.lock"});
  CHECK(reopen_run_dir(files, "/runs/gone", 0));
  CHECK(files.status("/runs/gone").value().is_directory);
  files.fail({.call = files.calls(), .error = EACCES, .lasting = true});
  CHECK_THAT(test::error_of([&] { reopen_run_dir(files, path, 0); }),
             test::contains(test::code(MessageCode::file_failed)) && test::contains("--ckpt_path: ") &&
                 test::contains("'" + path + "'") && test::contains("Permission denied"));
}
