#include "support/faulty_filesystem.h"

#include <set>

#include "support/catch.h"
#include "support/error_text.h"

using namespace cxtrain;
using test::Crash;
using test::FaultyFilesystem;
using Call = FaultyFilesystem::Call;
using Names = std::vector<std::string>;

namespace {

std::set<std::string> contents_after_crashes(const FaultyFilesystem& files, const std::string& path) {
  std::set<std::string> contents;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultyFilesystem disk = files.after_crash(seed);
    contents.insert(disk.status(path) ? read_whole_file(disk, path) : "nothing");
  }
  return contents;
}

}  // namespace

TEST_CASE("what was not synced may be lost, kept or torn by a crash", "[faulty]") {
  FaultyFilesystem files;
  const auto file = files.create("/f");
  file->write("0123456789");
  const std::string zeros(10, '\0');

  // The file's name has not reached the disk for sure.
  file->sync();
  CHECK(contents_after_crashes(files, "/f") == std::set<std::string>{"nothing", "0123456789"});
  files.sync_directory("/");
  CHECK(contents_after_crashes(files, "/f") == std::set<std::string>{"0123456789"});

  file->write("abcdefghij");
  const auto added = contents_after_crashes(files, "/f");
  CHECK(added.count("0123456789") == 1);
  CHECK(added.count("0123456789abcdefghij") == 1);
  CHECK(added.count("0123456789" + zeros) == 1);  // the size has come to the disk, the bytes have not
  CHECK(added.count("0123456789abcdef" + zeros.substr(0, 4)) == 1);
  CHECK(added.count("0123456789abc") == 1);
  for (const std::string& content : added) CHECK(content.starts_with("0123456789"));

  file->truncate(3);
  const auto cut = contents_after_crashes(files, "/f");
  CHECK(cut.count("012") == 1);
  CHECK(cut.count("0123456789") == 1);
  file->sync();
  CHECK(contents_after_crashes(files, "/f") == std::set<std::string>{"012"});

  files.create("/f")->write("new");
  CHECK(contents_after_crashes(files, "/f") == std::set<std::string>{"", "0", "01", "012", "n", "ne", "new"});
}

TEST_CASE("a crash may undo what happened to names since their folder was synced", "[faulty]") {
  FaultyFilesystem files;
  const auto listings = [&] {
    std::set<Names> found;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      FaultyFilesystem disk = files.after_crash(seed);
      Names names = disk.list("/");
      if (disk.status("/d")) {
        for (const std::string& name : disk.list("/d")) names.push_back("d/" + name);
      }
      found.insert(names);
    }
    return found;
  };
  files.create("/a");
  files.rename("/a", "/b");
  files.create("/c");
  CHECK(listings() == std::set<Names>{{}, {"a"}, {"a", "c"}, {"b"}, {"b", "c"}, {"c"}});
  files.sync_directory("/");
  CHECK(listings() == std::set<Names>{{"b", "c"}});
  files.remove("/b");
  files.make_directory("/d");
  files.rename("/c", "/d/c");
  CHECK(listings() ==
        std::set<Names>{{"b", "c"}, {"c"}, {"b", "c", "d"}, {"c", "d"}, {"b", "d", "d/c"}, {"d", "d/c"}});
  files.sync_directory(
      "/d");  // which brings the folder itself to the disk, but not what else there is in "/"
  CHECK(listings() == std::set<Names>{{"b", "d", "d/c"}, {"d", "d/c"}});
  files.sync_directory("/");
  files.create("/d/x");
  files.remove("/d/c");
  CHECK(listings() == std::set<Names>{{"d"}, {"d", "d/c"}, {"d", "d/c", "d/x"}, {"d", "d/x"}});
}

TEST_CASE("calls fail where they are told to, by their number or by their kind", "[faulty]") {
  FaultyFilesystem files;
  const auto file = files.create("/f");
  files.fail({.call = 1, .error = EIO, .kind = Call::write, .bytes = 2});
  file->write("whole");
  CHECK(files.calls() == 2);
  CHECK(files.calls(Call::write) == 1);
  CHECK_FALSE(files.failed());
  CHECK_THAT(test::error_of([&] { file->write("12345"); }),
             test::contains(test::code(MessageCode::file_failed)) && test::contains("Input/output error") &&
                 test::contains("'/f'"));
  CHECK(files.failed() == Call::write);
  file->write("!");
  CHECK(read_whole_file(files, "/f") == "whole12!");

  files.fail({.call = files.calls() + 1, .error = EROFS, .lasting = true});
  CHECK_NOTHROW(file->size());
  CHECK_THROWS_AS(file->size(), FileError);
  CHECK_THROWS_AS(files.remove("/f"), FileError);
  files.heal();
  CHECK_NOTHROW(files.remove("/f"));
}

TEST_CASE("a sync that fails loses what it should have brought to the disk", "[faulty]") {
  FaultyFilesystem files;
  const auto file = files.create("/f");
  files.sync_directory("/");
  file->write("lost");
  files.fail({.call = 0, .error = EIO, .kind = Call::sync});
  CHECK_THROWS_AS(file->sync(), FileError);
  CHECK(read_whole_file(files, "/f") == "lost");
  file->write(" kept");
  file->sync();
  CHECK(contents_after_crashes(files, "/f") == std::set<std::string>{std::string(4, '\0') + " kept"});
}

TEST_CASE("a full disk takes what there is room for", "[faulty]") {
  FaultyFilesystem files;
  files.set_capacity(10);
  const auto file = files.create("/f");
  file->write("12345678");
  CHECK(files.free_bytes("/") == 2);
  CHECK_THROWS_WITH(file->write("abcdef"), test::contains("No space left"));
  CHECK(read_whole_file(files, "/f") == "12345678ab");
  CHECK(files.free_bytes("/") == 0);
}

TEST_CASE("after a crash nothing changes any more", "[faulty]") {
  FaultyFilesystem files;
  const auto file = files.create("/f");
  files.sync_directory("/");
  file->write("old ");
  file->sync();
  files.crash_at(files.calls());
  CHECK_THROWS_AS(file->write("abcdefgh"), Crash);
  CHECK_THROWS_AS(file->write("more"), Crash);
  CHECK_THROWS_AS(file->sync(), Crash);
  CHECK_THROWS_AS(files.remove("/f"), Crash);
  CHECK(contents_after_crashes(files, "/f").count("old abcd") ==
        1);  // a first part of what it was about to write
  CHECK(contents_after_crashes(files, "/f").count("old abcdefgh") == 0);
  FaultyFilesystem disk = files.after_crash(0);
  CHECK(read_whole_file(disk, "/f") == "old ");
  CHECK_NOTHROW(disk.remove("/f"));
}
