#include "cxtrain/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <filesystem>
#include <random>

#include "cxtrain/checkpoint/checkpoint_error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/every_fault.h"
#include "support/temp_dir.h"

using namespace cxtrain;
using test::contains;
using test::FaultyFilesystem;
using test::TempDir;

namespace {

const std::string kPath = "/run/checkpoints/epoch=0-step=9.ckpt";
const auto kGoOn = [] { return true; };

/// A checkpoint of two files with these bytes.
void save(Filesystem& files, const std::string& path, std::int64_t step, const std::string& bytes) {
  begin_checkpoint(files, path);
  Manifest manifest;
  manifest.global_step = step;
  manifest.config = "trainer:\n  max_epochs: 3\n";
  manifest.metrics = {{"val_loss", 0.25}};
  const std::vector<Staging::File> content{{"model.safetensors", bytes}, {"training.safetensors", bytes}};
  CheckpointFilesWriter writer(files, path);
  writer.append(content, kGoOn);
  manifest.files = writer.finish();
  publish_checkpoint(files, path, manifest);
}

const std::string kOld(5000, 'o'), kNew(9000, 'n');

/// The step of the newest checkpoint that is whole; -1 for none.
std::int64_t newest_whole(Filesystem& files, std::size_t& refused) {
  std::vector<std::string> damaged;
  for (const FoundCheckpoint& found : find_checkpoints(files, "/run/checkpoints", damaged)) {
    try {
      verify_files(files, found.path, found.manifest);
      return found.manifest.global_step;
    } catch (const CheckpointError&) {
      ++refused;
    }
  }
  refused += damaged.size();
  return -1;
}

void flip(Filesystem& files, const std::string& path, std::uint64_t bit) {
  std::string content = read_whole_file(files, path);
  content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << (bit % 8)));
  const auto file = files.create(path);
  file->write(content);
  file->close();
}

void shorten(Filesystem& files, const std::string& path, std::size_t size) {
  const std::string content = read_whole_file(files, path);
  const auto file = files.create(path);
  file->write(std::string_view(content).substr(0, size));
  file->close();
}

}  // namespace

TEST_CASE("a link in a checkpoint's place is removed, and what it leads to stays", "[checkpoint]") {
  const TempDir dir;
  RealFilesystem files;
  const std::string path = dir.file("checkpoints/epoch=0-step=9.ckpt");
  const std::string suffix = GENERATE(as<std::string>{}, "", kPartSuffix, kOldSuffix);
  // As after `mv x.ckpt archive/; ln -s archive/x.ckpt`.
  save(files, dir.file("archive/first.ckpt"), 9, kOld);
  dir.write("archive/first.ckpt/my-notes.txt", "mine");
  std::filesystem::create_directory(dir.file("checkpoints"));
  std::filesystem::create_symlink("../archive/first.ckpt", path + suffix);
  save(files, path, 10, kNew);
  CHECK_FALSE(files.own_status(path)->is_link);
  CHECK(read_manifest(files, path).global_step == 10);
  remove_checkpoint(files, path);
  CHECK(files.list(dir.file("checkpoints")).empty());
  CHECK(files.list(dir.file("archive/first.ckpt")).size() == 4);
}

TEST_CASE("what is not a checkpoint's stays in its folder", "[checkpoint]") {
  FaultyFilesystem files;
  save(files, kPath, 9, kOld);
  write_atomically(files, kPath + "/my-notes.txt", "mine");
  write_atomically(files, kPath + "/exported.safetensors", "mine");
  CHECK_THROWS_AS(remove_checkpoint(files, kPath), FileError);
  std::vector<std::string> left = files.list(kPath);
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{"exported.safetensors", "my-notes.txt"});
}

TEST_CASE("a manifest of a size that none has is damaged", "[checkpoint]") {
  const TempDir dir;
  RealFilesystem files;
  const std::string folder = dir.file("checkpoints");
  save(files, folder + "/good.ckpt", 9, kOld);
  std::filesystem::create_directory(folder + "/large.ckpt");
  dir.write("checkpoints/large.ckpt/manifest.json", "{");
  std::filesystem::resize_file(folder + "/large.ckpt/manifest.json", std::uintmax_t{1} << 40);  // sparse
  std::vector<std::string> damaged;
  CHECK(find_checkpoints(files, folder, damaged).size() == 1);
  REQUIRE(damaged.size() == 1);
  CHECK_THAT(damaged[0], contains("File too large"));
}

TEST_CASE("a crash while a checkpoint is saved leaves the old one or the new one", "[checkpoint]") {
  SECTION("of another name") {
    const auto old = [](FaultyFilesystem& files) { save(files, "/run/checkpoints/old.ckpt", 5, kOld); };
    const auto work = [](FaultyFilesystem& files) {
      save(files, kPath, 9, kNew);
      remove_checkpoint(files, "/run/checkpoints/old.ckpt");
    };
    test::crash_at_every_call(old, work, [](FaultyFilesystem& disk, bool finished) {
      std::size_t refused = 0;
      const std::int64_t step = newest_whole(disk, refused);
      CHECK((step == 9 || (step == 5 && !finished)));
      CHECK(refused == 0);  // nothing that looks like a checkpoint is none
      save(disk, kPath, 9, kNew);
      CHECK(newest_whole(disk, refused) == 9);
    });
  }
  SECTION("of the same name") {
    const auto old = [](FaultyFilesystem& files) { save(files, kPath, 5, kOld); };
    const auto work = [](FaultyFilesystem& files) { save(files, kPath, 9, kNew); };
    test::crash_at_every_call(old, work, [](FaultyFilesystem& disk, bool finished) {
      std::size_t refused = 0;
      const std::int64_t step = newest_whole(disk, refused);
      CHECK((step == 9 || (step == 5 && !finished)));
      CHECK(refused == 0);
    });
  }
}

TEST_CASE("a save that fails leaves the old checkpoint", "[checkpoint]") {
  const auto old = [](FaultyFilesystem& files) { save(files, kPath, 5, kOld); };
  const auto work = [](FaultyFilesystem& files) {
    try {
      save(files, kPath, 9, kNew);
    } catch (const FileError&) {
    }
  };
  test::fail_at_every_call(old, work, [](FaultyFilesystem& files, bool) {
    std::size_t refused = 0;
    const std::int64_t step = newest_whole(files, refused);
    CHECK((step == 5 || step == 9));
  });
}

TEST_CASE("every flipped bit and every truncation is found, and the one before is taken", "[checkpoint]") {
  const auto two = [](Filesystem& files) {
    save(files, "/run/checkpoints/old.ckpt", 5, kOld);
    save(files, kPath, 9, std::string(20000, 'x'));
  };
  std::mt19937_64 random(3);
  for (int i = 0; i < 1000; ++i) {
    FaultyFilesystem files;
    two(files);
    const std::array<const char*, 3> names{"/manifest.json", "/model.safetensors", "/training.safetensors"};
    const std::string path = kPath + names[random() % 3];
    const std::uint64_t bit = random() % (files.status(path)->size * 8);
    CAPTURE(path, bit);
    flip(files, path, bit);
    std::size_t refused = 0;
    CHECK(newest_whole(files, refused) == 5);
  }
  for (const char* name : {"/manifest.json", "/model.safetensors", "/training.safetensors"}) {
    FaultyFilesystem whole;
    two(whole);
    const std::uint64_t size = whole.status(kPath + name)->size;
    for (std::uint64_t length = 0; length < size; length += std::min<std::uint64_t>(4096, size / 7)) {
      FaultyFilesystem files;
      two(files);
      CAPTURE(name, length);
      shorten(files, kPath + name, length);
      std::size_t refused = 0;
      CHECK(newest_whole(files, refused) == 5);
    }
  }
}

TEST_CASE("foreign, newer and missing checkpoints are refused by name", "[checkpoint]") {
  FaultyFilesystem files;
  CHECK_THAT(test::error_of([&] { read_manifest(files, "/nothing"); }),
             test::contains(test::code(MessageCode::checkpoint_missing)) && test::contains("'/nothing'"));
  make_directories(files, "/folder");
  CHECK_THAT(test::error_of([&] { read_manifest(files, "/folder"); }),
             test::contains(test::code(MessageCode::checkpoint_missing)) && test::contains("manifest.json"));
  write_atomically(files, "/folder/manifest.json", R"({"name": "an app"})");
  CHECK_THAT(test::error_of([&] { read_manifest(files, "/folder"); }),
             test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains("/folder") &&
                 test::contains("cxtrain"));
  write_atomically(files, "/folder/manifest.json", std::string(300000, '['));
  CHECK_THROWS_AS(read_manifest(files, "/folder"), CheckpointError);

  save(files, kPath, 9, kNew);
  std::string text = read_whole_file(files, kPath + "/manifest.json");
  text.replace(text.find("\"format_version\": 1"), 19, "\"format_version\": 7");
  write_atomically(files, kPath + "/manifest.json", text);
  CHECK_THAT(test::error_of([&] { read_manifest(files, kPath); }),
             test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains("format 7") &&
                 test::contains("format 1"));

  save(files, kPath, 9, kNew);
  files.remove(kPath + "/model.safetensors");
  CHECK_THAT(test::error_of([&] { verify_files(files, kPath, read_manifest(files, kPath)); }),
             test::contains(test::code(MessageCode::bad_checkpoint)) && test::contains("model.safetensors"));
}

TEST_CASE("a manifest comes back as it was", "[checkpoint]") {
  Manifest manifest;
  manifest.program = "cxtrain 1";
  manifest.epoch = 3;
  manifest.seed = ~std::uint64_t{0};
  manifest.created = 1.5;
  manifest.config = "a: \"b\"\n";
  manifest.metrics = {{"loss", 0.1}, {"diverged", std::numeric_limits<double>::quiet_NaN()}};
  manifest.files = {{"model.safetensors", 12, "ab"}};
  manifest.state = {{"sections", {{"loop", {{"values", {{"epoch", 3}, {"lr", 1.0}}}}}}}};
  const std::string text = to_text(manifest);
  CHECK(to_text(manifest_from(text, "m")) == text);
  CHECK((manifest_from(text, "m").files == manifest.files));
  CHECK(manifest_from(text, "m").seed == manifest.seed);
}
