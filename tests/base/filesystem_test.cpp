#include "cxtrain/base/filesystem.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/faulty_filesystem.h"
#include "support/skip.h"
#include "support/temp_dir.h"

using namespace cxtrain;
using test::FaultyFilesystem;
using Names = std::vector<std::string>;

namespace {

/// A filesystem and an empty folder on it.
struct OnDisk {
  test::TempDir dir;
  RealFilesystem files;
  std::string folder = dir.path();
};
struct InMemory {
  FaultyFilesystem files;
  std::string folder = files.make_directory("/folder") ? "/folder" : "";
};

void write(Filesystem& files, const std::string& path, std::string_view content) {
  const auto file = files.create(path);
  file->write(content);
  file->close();
}

/// What the system says when `work` fails; no error when it does not.
std::error_code reason_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const FileError& error) {
    return error.reason();
  }
  return {};
}

}  // namespace

TEMPLATE_TEST_CASE("a file holds what was written to it", "[filesystem]", OnDisk, InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const std::string path = world.folder + "/file";
  {
    const auto file = files.create(path);
    CHECK(file->size() == 0);
    file->write("one ");
    file->write("two");
    CHECK(file->size() == 7);
    CHECK(read_whole_file(files, path) == "one two");  // before it is synced or closed
    file->sync();
    file->close();
  }
  {
    const auto file = files.append_to(path);
    CHECK(file->size() == 7);
    file->write(" three");
    file->truncate(9);
    file->write("!");
  }
  CHECK(read_whole_file(files, path) == "one two t!");
  const auto file = files.open(path);
  CHECK(file->size() == 10);
  std::string part(4, '.');
  CHECK(file->read(4, part) == 4);
  CHECK(part == "two ");
  CHECK(file->read(8, part) == 2);
  CHECK(part == "t!o ");
  CHECK(file->read(10, part) == 0);
  CHECK(file->read(1000, part) == 0);
  CHECK(files.status(path).value().size == 10);
  CHECK_FALSE(files.status(path).value().is_directory);
  write(files, path, "new");
  CHECK(read_whole_file(files, path) == "new");
  files.append_to(world.folder + "/another")->write("begun");
  CHECK(read_whole_file(files, world.folder + "/another") == "begun");
}

TEMPLATE_TEST_CASE("folders are made once, listed and removed when empty", "[filesystem]", OnDisk, InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const std::string folder = world.folder + "/runs";
  CHECK(files.make_directory(folder));
  CHECK_FALSE(files.make_directory(folder));
  CHECK(files.status(folder).value().is_directory);
  CHECK(files.list(folder).empty());
  write(files, folder + "/b", "x");
  CHECK_FALSE(files.make_directory(folder + "/b"));
  CHECK(files.make_directory(folder + "/a"));
  CHECK(files.list(folder) == Names{"a", "b"});
  files.sync_directory(folder);
  CHECK(reason_of([&] { files.remove(folder); }) == std::errc::directory_not_empty);
  files.remove(folder + "/a");
  files.remove(folder + "/b");
  CHECK_FALSE(files.status(folder + "/b"));
  files.remove(folder);
  CHECK_FALSE(files.status(folder));
  CHECK(files.free_bytes(world.folder) > 0);

  make_directories(files, folder + "/x/y/");
  make_directories(files, folder + "/x/y");
  CHECK(files.status(folder + "/x/y").value().is_directory);
}

TEMPLATE_TEST_CASE("rename replaces files and empty folders", "[filesystem]", OnDisk, InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const auto at = [&](const std::string& name) { return world.folder + "/" + name; };
  write(files, at("a"), "from a");
  write(files, at("b"), "from b");
  const auto replaced = files.append_to(at("b"));
  const auto read_before = files.open(at("b"));
  const auto renamed = files.append_to(at("a"));
  files.rename(at("a"), at("b"));
  CHECK(files.list(world.folder) == Names{"b"});
  CHECK(read_whole_file(files, at("b")) == "from a");
  // Open files stay what they were.
  std::string content(6, '.');
  CHECK(read_before->read(0, content) == 6);
  CHECK(content == "from b");
  CHECK(reason_of([&] { static_cast<void>(replaced->size()); }) == std::errc::no_such_file_or_directory);
  renamed->write("!");
  CHECK(read_whole_file(files, at("b")) == "from a!");

  files.make_directory(at("part"));
  write(files, at("part/weights"), "w");
  files.make_directory(at("empty"));
  files.make_directory(at("full"));
  write(files, at("full/x"), "");
  CHECK(reason_of([&] { files.rename(at("part"), at("full")); }) == std::errc::directory_not_empty);
  CHECK(reason_of([&] { files.rename(at("part"), at("b")); }) == std::errc::not_a_directory);
  CHECK(reason_of([&] { files.rename(at("b"), at("full")); }) == std::errc::is_a_directory);
  CHECK(reason_of([&] { files.rename(at("part"), at("part/in")); }) == std::errc::invalid_argument);
  files.rename(at("part"), at("empty"));
  files.rename(at("empty"), at("final"));
  CHECK(read_whole_file(files, at("final/weights")) == "w");
  CHECK(files.list(world.folder) == Names{"b", "final", "full"});
  files.rename(at("b"), at("full/b"));
  CHECK(files.list(at("full")) == Names{"b", "x"});
}

TEMPLATE_TEST_CASE("a link leads to a folder beside it, and later to another", "[filesystem]", OnDisk,
                   InMemory) {
  TestType world;
  Filesystem& files = world.files;
  for (const char* name : {"/one", "/two"}) {
    files.make_directory(world.folder + name);
    write(files, world.folder + name + "/file", name);
  }
  const std::string link = world.folder + "/last";
  for (const char* name : {"one", "two"}) {
    files.link(name, link);
    files.sync_directory(world.folder);
    CHECK(read_whole_file(files, link + "/file") == "/" + std::string(name));
    CHECK(files.status(link).value().is_directory);
  }
  CHECK(reason_of([&] { files.link("one", world.folder + "/two"); }) == std::errc::is_a_directory);
  files.remove(link);
  CHECK(files.list(world.folder) == Names{"one", "two"});
  CHECK(read_whole_file(files, world.folder + "/two/file") == "/two");
}

TEMPLATE_TEST_CASE("what is not there, or is of another kind, is an error", "[filesystem]", OnDisk,
                   InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const auto at = [&](const std::string& name) { return world.folder + "/" + name; };
  constexpr auto kMissing = std::errc::no_such_file_or_directory;
  CHECK(reason_of([&] { files.open(at("none")); }) == kMissing);
  CHECK(reason_of([&] { files.create(at("none/file")); }) == kMissing);
  CHECK(reason_of([&] { files.append_to(at("none/file")); }) == kMissing);
  CHECK(reason_of([&] { files.rename(at("none"), at("b")); }) == kMissing);
  CHECK(reason_of([&] { files.remove(at("none")); }) == kMissing);
  CHECK(reason_of([&] { files.make_directory(at("none/folder")); }) == kMissing);
  CHECK(reason_of([&] { files.list(at("none")); }) == kMissing);
  CHECK(reason_of([&] { files.sync_directory(at("none")); }) == kMissing);
  CHECK(reason_of([&] { files.free_bytes(at("none")); }) == kMissing);
  CHECK_FALSE(files.status(at("none")));
  CHECK_FALSE(files.status(at("none/file")));

  write(files, at("file"), "x");
  CHECK(reason_of([&] { files.open(world.folder); }) == std::errc::is_a_directory);
  CHECK(reason_of([&] { files.create(world.folder); }) == std::errc::is_a_directory);
  CHECK(reason_of([&] { files.list(at("file")); }) == std::errc::not_a_directory);
  CHECK(reason_of([&] { files.create(at("file/x")); }) == std::errc::not_a_directory);
  CHECK(reason_of([&] { files.open(at("file/x")); }) == std::errc::not_a_directory);
  CHECK(reason_of([&] { files.rename(at("file"), at("none/file")); }) == kMissing);
  CHECK(reason_of([&] { make_directories(files, at("file")); }) == std::errc::not_a_directory);
  CHECK(reason_of([&] { make_directories(files, at("file/x/y")); }) == std::errc::not_a_directory);
  CHECK_FALSE(files.status(at("file/x")));
}

TEMPLATE_TEST_CASE("a deleted file is noticed by who writes to it", "[filesystem]", OnDisk, InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const auto file = files.create(world.folder + "/file");
  file->write("x");
  files.remove(world.folder + "/file");
  file->write("y");
  CHECK(reason_of([&] { static_cast<void>(file->size()); }) == std::errc::no_such_file_or_directory);
  file->close();
}

TEMPLATE_TEST_CASE("of those who make a folder at the same time one has made it", "[filesystem]", OnDisk) {
  TestType world;
  std::vector<int> made(8);
  {
    std::vector<std::jthread> all;
    for (int& one : made) {
      all.emplace_back([&] { one = world.files.make_directory(world.folder + "/lock") ? 1 : 0; });
    }
  }
  CHECK(std::count(made.begin(), made.end(), 1) == 1);
}

TEST_CASE("devices and pipes are neither measured, cut nor waited for", "[filesystem]") {
  const OnDisk world;
  RealFilesystem files;
  const auto full = files.append_to("/dev/full");
  CHECK(full->size() == 0);
  CHECK_NOTHROW(full->truncate(0));
  CHECK(reason_of([&] { full->write("x"); }) == std::errc::no_space_on_device);
  REQUIRE(mkfifo((world.folder + "/pipe").c_str(), 0600) == 0);
  CHECK(reason_of([&] {
          std::string one(1, ' ');
          files.open(world.folder + "/pipe")->read(0, one);
        }) == std::errc::invalid_seek);
}

TEST_CASE("a link that lies where a file is written leads nowhere", "[filesystem]") {
  const OnDisk world;
  RealFilesystem files;
  const std::string victim = world.dir.write("victim", "precious"), link = world.folder + "/link";
  std::filesystem::create_symlink(victim, link);
  constexpr auto kLink = std::errc::too_many_symbolic_link_levels;
  CHECK(reason_of([&] { files.create(link); }) == kLink);
  CHECK(reason_of([&] { files.append_to(link); }) == kLink);
  CHECK(reason_of([&] { files.try_lock(link, Filesystem::LockKind::exclusive); }) == kLink);
  CHECK(reason_of([&] { write_atomically(files, link, "new"); }) == kLink);
  CHECK(test::slurp(victim) == "precious");
  CHECK(files.own_status(link).value().is_link);
  CHECK(files.status(link).value().is_file);
  CHECK_FALSE(files.own_status(victim).value().is_link);
  // Nor one that waits under the name of a part.
  const std::string path = world.folder + "/file";
  std::filesystem::create_symlink(victim, path + ".part." + std::to_string(getpid()));
  write_atomically(files, path, "new");
  CHECK(test::slurp(victim) == "precious");
  CHECK(test::slurp(path) == "new");
}

TEST_CASE("only files are replaced, and pipes are not waited for", "[filesystem]") {
  const OnDisk world;
  RealFilesystem files;
  const std::string pipe = world.folder + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  constexpr auto kNoFile = std::errc::operation_not_supported;
  CHECK(reason_of([&] { files.create(pipe); }) == kNoFile);
  CHECK(reason_of([&] { files.append_to(pipe); }) == kNoFile);
  for (const std::string& path : {pipe, std::string("/dev/null")}) {
    CHECK(reason_of([&] { write_atomically(files, path, "x"); }) == kNoFile);
    CHECK(reason_of([&] { write_at_once(files, path, "x"); }) == kNoFile);
    CHECK_FALSE(files.own_status(path).value().is_file);
  }
  CHECK(reason_of([&] { write_atomically(files, world.folder, "x"); }) == std::errc::is_a_directory);
}

TEMPLATE_TEST_CASE("a file that is larger than its kind ever is, is not read as a whole", "[filesystem]",
                   OnDisk, InMemory) {
  TestType world;
  const std::string path = world.folder + "/file";
  write(world.files, path, "12345");
  CHECK(read_whole_file(world.files, path, 5) == "12345");
  CHECK(reason_of([&] { read_whole_file(world.files, path, 4); }) == std::errc::file_too_large);
}

TEST_CASE("what belongs to others is known, links looked at and followed", "[filesystem]") {
  const OnDisk world;
  RealFilesystem files;
  const std::string file = world.dir.write("file", "x"), link = world.folder + "/link";
  std::filesystem::create_symlink(file, link);
  CHECK(belongs_to_this_user(files, file));
  CHECK(belongs_to_this_user(files, link));
  CHECK_FALSE(belongs_to_this_user(files, world.folder + "/none"));
  if (geteuid() != 0) return test::skip("only root can give a file to another user");
  constexpr uid_t kAnother = 54321;
  REQUIRE(lchown(link.c_str(), kAnother, kAnother) == 0);
  CHECK(belongs_to_this_user(files, file));
  CHECK_FALSE(belongs_to_this_user(files, link));
  REQUIRE(lchown(link.c_str(), 0, 0) == 0);
  REQUIRE(chown(file.c_str(), kAnother, kAnother) == 0);
  CHECK_FALSE(belongs_to_this_user(files, link));
}

TEST_CASE("nobody else can open a lock", "[filesystem]") {
  const OnDisk world;
  RealFilesystem files;
  const std::string path = world.folder + "/lock";
  const auto mode = [&] {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  };
  const mode_t before = umask(022);
  CHECK(files.try_lock(path, Filesystem::LockKind::exclusive));
  umask(before);
  CHECK(mode() == 0600);
  REQUIRE(chmod(path.c_str(), 0644) == 0);  // as an earlier version made it
  CHECK(files.try_lock(path, Filesystem::LockKind::exclusive));
  CHECK(mode() == 0600);
}

TEMPLATE_TEST_CASE("a lock is one's own, or shared, and ends with its holder", "[filesystem]", OnDisk,
                   InMemory) {
  TestType world;
  Filesystem& files = world.files;
  const std::string path = world.folder + "/lock";
  using Kind = Filesystem::LockKind;
  auto mine = files.try_lock(path, Kind::exclusive);
  REQUIRE(mine);
  CHECK(files.status(path));
  CHECK_FALSE(files.try_lock(path, Kind::exclusive));
  CHECK_FALSE(files.try_lock(path, Kind::shared));
  write(files, path, "who");  // the same file, so the same lock
  CHECK_FALSE(files.try_lock(path, Kind::shared));
  CHECK(mine->share());
  auto another = files.try_lock(path, Kind::shared);
  CHECK(another);
  CHECK_FALSE(files.try_lock(path, Kind::exclusive));
  mine.reset();
  CHECK_FALSE(files.try_lock(path, Kind::exclusive));
  another.reset();
  CHECK(files.try_lock(path, Kind::exclusive));
  CHECK(reason_of([&] { files.try_lock(world.folder + "/none/lock", Kind::shared); }) ==
        std::errc::no_such_file_or_directory);
}

TEST_CASE("a FileError says which operation failed, on what, why, and what to do", "[filesystem]") {
  const FileError full("write", "/d/f", ENOSPC);
  CHECK_THAT(printed(full), test::contains(test::code(MessageCode::file_failed)) &&
                                test::contains("No space left on device") && test::contains("'/d/f'"));
  CHECK(full.path() == "/d/f");
  CHECK(full.reason() == std::errc::no_space_on_device);
  CHECK(full.code() == ExitCode::failure);
  CHECK_THAT(printed(FileError("sync", "f", EIO)), test::contains(test::code(MessageCode::file_failed)) &&
                                                       test::contains("Input/output error") &&
                                                       test::contains("'f'"));
  CHECK_THAT(FileError("open", "f", EROFS).what(), test::contains("'f'") && test::contains("folder"));
  CHECK_THAT(FileError("open", "f", ENOENT).what(), test::contains("'f'") && test::contains("deleted"));
  CHECK_THAT(FileError("open", "f", EMFILE).what(), test::contains("'f'") && test::contains("permissions"));
}

TEST_CASE("the folder of a path", "[filesystem]") {
  CHECK(parent_directory("/a/b") == "/a");
  CHECK(parent_directory("/a") == "/");
  CHECK(parent_directory("/") == "/");
  CHECK(parent_directory("a") == ".");
  CHECK(parent_directory("a/b/") == "a/b");
}
