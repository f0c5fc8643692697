#include <algorithm>

#include "cxtrain/base/filesystem.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/every_fault.h"

using namespace cxtrain;
using test::FaultyFilesystem;
using Call = FaultyFilesystem::Call;
using Names = std::vector<std::string>;

namespace {

constexpr const char* kOld = "the old content, of a few blocks";
constexpr const char* kNew = "A NEW CONTENT THAT IS LONGER THAN THE OLD ONE, AND HAS OTHER BYTES EVERYWHERE";

void make_old(FaultyFilesystem& files) {
  make_directories(files, "/run");
  write_atomically(files, "/run/file", kOld);
}
void make_new(FaultyFilesystem& files) { write_atomically(files, "/run/file", kNew); }

/// The names that a folder has besides `expected`, which it has to have.
Names others(FaultyFilesystem& files, const std::string& folder, const std::string& expected) {
  Names names = files.list(folder);
  const auto found = std::find(names.begin(), names.end(), expected);
  REQUIRE(found != names.end());
  names.erase(found);
  return names;
}

}  // namespace

TEST_CASE("a crash leaves the old content or the new one", "[filesystem]") {
  test::crash_at_every_call(make_old, make_new, [](FaultyFilesystem& disk, bool finished) {
    const std::string content = read_whole_file(disk, "/run/file");
    CHECK((content == kNew || (!finished && content == kOld)));
    const Names left = others(disk, "/run", "file");
    CHECK(left.size() <= 1);
    for (const std::string& name : left) CHECK(name.starts_with("file.part."));
    // What is left does not stand in the way.
    write_atomically(disk, "/run/file", "another");
    CHECK(read_whole_file(disk, "/run/file") == "another");
  });
}

TEST_CASE("a crash leaves a new file whole or absent", "[filesystem]") {
  const auto make_run = [](FaultyFilesystem& files) { make_directories(files, "/run"); };
  test::crash_at_every_call(make_run, make_new, [](FaultyFilesystem& disk, bool finished) {
    const bool there = disk.status("/run/file").has_value();
    CHECK((there || !finished));
    if (there) CHECK(read_whole_file(disk, "/run/file") == kNew);
  });
}

TEST_CASE("a write that fails leaves the old content and no other file", "[filesystem]") {
  std::string message;
  const auto make_new_or_fail = [&](FaultyFilesystem& files) {
    message.clear();
    try {
      make_new(files);
    } catch (const FileError& error) {
      message = printed(error);
    }
  };
  test::fail_at_every_call(make_old, make_new_or_fail, [&](FaultyFilesystem& files, bool lasting) {
    CHECK(message.empty() == !files.failed());
    const std::string content = read_whole_file(files, "/run/file");
    const bool renamed = !files.failed() || files.failed() == Call::sync_directory;
    CHECK(content == (renamed ? kNew : kOld));
    // A file that was there already when everything began to fail cannot be removed.
    CHECK(others(files, "/run", "file").size() <= (lasting ? 1 : 0));
    if (renamed) return;
    CHECK_THAT(message, test::contains("cannot write '/run/file': "));
  });
}

TEST_CASE("a full disk, a quota and a failing disk are told as they are", "[filesystem]") {
  const auto message_for = [](const FaultyFilesystem::Fault& fault) -> std::string {
    FaultyFilesystem files;
    make_old(files);
    FaultyFilesystem::Fault relative = fault;
    relative.call += files.calls(*fault.kind);
    files.fail(relative);
    return test::error_of<FileError>([&] { make_new(files); });
  };
  CHECK_THAT(
      message_for({.call = 0, .error = ENOSPC, .kind = Call::write, .bytes = 5}),
      test::contains(test::code(MessageCode::file_failed)) && test::contains("No space left on device"));
  CHECK_THAT(message_for({.call = 0, .error = EIO, .kind = Call::sync}),
             test::contains("Input/output error"));
  CHECK_THAT(message_for({.call = 0, .error = EDQUOT, .kind = Call::close}),
             test::contains("quota exceeded"));
  CHECK_THAT(message_for({.call = 0, .error = EROFS, .kind = Call::create}), test::contains("Read-only"));
  CHECK_THAT(message_for({.call = 0, .error = ESTALE, .kind = Call::rename}),
             test::contains("Stale file handle"));
  CHECK_THAT(message_for({.call = 0, .error = EIO, .kind = Call::sync_directory}),
             test::contains(test::code(MessageCode::file_failed)) && test::contains("'/run'"));
}

TEST_CASE("folders that were made outlive a crash, with those that they lie in", "[filesystem]") {
  const auto nothing = [](FaultyFilesystem&) {};
  const auto make = [](FaultyFilesystem& files) { make_directories(files, "/a/b/c"); };
  test::crash_at_every_call(nothing, make, [&](FaultyFilesystem& disk, bool finished) {
    CHECK((disk.status("/a/b/c").has_value() || !finished));
    make(disk);
    CHECK(disk.status("/a/b/c").value().is_directory);
  });
}

// What a store of several files will do: the port has to be enough for it.
TEST_CASE("a folder that is written beside its place and renamed is whole or absent", "[filesystem]") {
  const auto make_store = [](FaultyFilesystem& files) { make_directories(files, "/store"); };
  const auto save = [](FaultyFilesystem& files) {
    files.make_directory("/store/new.part");
    for (const char* name : {"weights", "index"}) {
      const auto file = files.create(std::string("/store/new.part/") + name);
      file->write(std::string("the ") + name);
      file->write(" of a model");
      file->sync();
      file->close();
    }
    files.sync_directory("/store/new.part");
    files.rename("/store/new.part", "/store/new");
    files.sync_directory("/store");
  };
  test::crash_at_every_call(make_store, save, [](FaultyFilesystem& disk, bool finished) {
    const Names names = disk.list("/store");
    CHECK(names.size() <= 1);
    const bool there = names == Names{"new"};
    CHECK((there || !finished));
    if (!there) return;
    CHECK(read_whole_file(disk, "/store/new/weights") == "the weights of a model");
    CHECK(read_whole_file(disk, "/store/new/index") == "the index of a model");
  });
}
