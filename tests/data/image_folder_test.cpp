#include "cxtrain/data/image_folder.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <filesystem>
#include <map>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_loader.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/pictures.h"

#ifdef CXTRAIN_PNG

namespace {

using namespace cxtrain;
using test::code;
using test::contains;
using test::TempDir;
namespace fs = std::filesystem;

const std::string kPicture = test::png_file(4, 4, [](int y, int x, int c) { return 10 * y + 5 * x + c; });

std::string refused_folder(const std::string& path, std::vector<std::string> classes = {}) {
  return test::error_of<DataError>([&] { ImageFolder(path, {}, std::move(classes)); });
}

/// What a loader gives in an epoch, by the samples' indices.
std::map<std::int64_t, at::Tensor> images_of_epoch(const std::shared_ptr<const ImageFolder>& data,
                                                   DataShard shard, int workers, std::int64_t first_batch) {
  DataLoader loader(
      {.dataset = data},
      ShardedSampler(data->size(), shard, {.batch_size = 4 / shard.count, .shuffle = true, .seed = 3}),
      {.num_workers = workers});
  loader.start_epoch(1, first_batch);
  std::map<std::int64_t, at::Tensor> images;
  for (Batch batch; loader.next(batch);) {
    for (std::size_t i = 0; i < batch.indices.size(); ++i)
      images[batch.indices[i]] = batch[0][static_cast<std::int64_t>(i)].clone();
  }
  return images;
}

}  // namespace

TEST_CASE("a folder's classes are its sub-folders, sorted", "[image]") {
  const TempDir dir;
  for (const std::string name : {"b", "a", ".hidden", "a/deep", "a/.cache"})
    fs::create_directory(dir.file(name));
  for (const std::string name :
       {"b/2.PNG", "b/1.jpeg", "a/z.png", "a/deep/y.JPG", "a/.DS_Store", "a/._z.png", "a/.cache/x.png",
        "a/list.txt", "a/line\nbreak.png", "stray.png", ".hidden/h.png"})
    dir.write(name, kPicture);
  const ImageFolder folder(dir.path(), {});
  CHECK(folder.classes() == std::vector<std::string>{"a", "b"});
  std::vector<std::string> files;
  for (std::int64_t i = 0; i < folder.size(); ++i)
    files.push_back(std::to_string(folder.label(i)) + folder.file(i).substr(dir.path().size()));
  CHECK(files == std::vector<std::string>{"0/a/deep/y.JPG", "0/a/line\nbreak.png", "0/a/z.png", "1/b/1.jpeg",
                                          "1/b/2.PNG"});

  SampleRandom random(0, 0, 0);
  const Batch sample = folder.get(4, random);
  CHECK(sample[0].sizes() == at::IntArrayRef({3, 4, 4}));
  CHECK(sample[1].item<std::int64_t>() == 1);

  const ImageFolder known(dir.path(), {}, {"other", "b", "a"});
  CHECK(known.label(0) == 1);
  CHECK(known.label(4) == 2);
  CHECK(known.size() == 5);
}

TEST_CASE("folders without classes or pictures are rejected with what is missing", "[image]") {
  const TempDir dir;
  CHECK_THAT(refused_folder(dir.file("nowhere")), contains(code(MessageCode::file_failed)));
  CHECK_THAT(refused_folder(dir.write("file", "")), contains(code(MessageCode::file_failed)));
  const std::string root = dir.file("root");
  fs::create_directory(root);
  CHECK_THAT(refused_folder(root), contains("folder for each class"));
  fs::create_directories(root + "/cat");
  dir.write("root/cat/notes.txt", "");
  CHECK_THAT(refused_folder(root), contains("root/cat' has no file that ends in .jpg"));
  CHECK_THAT(refused_folder(root, {"cat"}), contains(code(MessageCode::no_data)));
  dir.write("root/cat/1.png", kPicture);
  CHECK(refused_folder(root).empty());
  CHECK_THAT(refused_folder(root, {"dog"}), contains("'cat', which the training data lacks"));
}

TEST_CASE("links within a class are followed to files only", "[image]") {
  const TempDir dir;
  fs::create_directories(dir.file("root/a/b"));
  dir.write("elsewhere.png", kPicture);
  fs::create_symlink(dir.file("elsewhere.png"), dir.file("root/a/link.png"));
  fs::create_directory_symlink(dir.file("root"), dir.file("root/a/b/loop"));
  fs::create_symlink(dir.file("root/a/broken.png"), dir.file("root/a/broken.png"));
  fs::create_symlink("nowhere", dir.file("root/nothing"));
  const ImageFolder folder(dir.file("root"), {});
  REQUIRE(folder.size() == 2);
  SampleRandom random(0, 0, 0);
  CHECK(folder.get(1, random)[0].size(1) == 4);
  const std::string message = test::error_of<DataError>([&] { folder.get(0, random); });
  CHECK_THAT(message, contains("sample 0: "));
  CHECK_THAT(message, contains("a/broken.png'"));
}

TEST_CASE("an error of a picture or a transform names the sample and its file", "[image]") {
  const TempDir dir;
  fs::create_directory(dir.file("a"));
  dir.write("a/1.png", kPicture);
  dir.write("a/2.png", kPicture.substr(0, 60));
  const auto folder = std::make_shared<ImageFolder>(dir.path(), ImageTransforms{CenterCrop{9}});
  for (const std::int64_t index : {0, 1}) {
    Batch batch;
    const std::string message =
        test::error_of<DataError>([&] { collate_samples(*folder, std::span(&index, 1), {}, batch); });
    CHECK_THAT(message, contains("sample " + std::to_string(index) + ": '" + folder->file(index)));
    CHECK_THAT(message, contains(index == 0 ? "Resize{9}" : "is damaged"));
  }
}

TEST_CASE("pictures are normalised after the transfer", "[image]") {
  const TempDir dir;
  fs::create_directory(dir.file("a"));
  dir.write("a/1.png", kPicture);
  const ImageFolder folder(dir.path(), {});
  Batch batch;
  batch.tensors = {at::full({2, 3, 5, 5}, 51, at::kByte)};
  folder.on_after_batch_transfer(batch);
  REQUIRE(batch[0].scalar_type() == at::kFloat);
  for (std::int64_t c = 0; c < 3; ++c) {
    const double expected = (0.2 - ImageFolder::kMean[c]) / ImageFolder::kDeviation[c];
    CHECK(at::allclose(batch[0].select(1, c), at::full({2, 5, 5}, expected, at::kFloat), 1e-6, 1e-6));
  }
  const at::Tensor before = batch[0].clone();
  folder.on_after_batch_transfer(batch);  // floats are the transforms' own
  CHECK(at::equal(batch[0], before));
}

TEST_CASE("augmented pictures are the same on any number of ranks and workers, and after a resume",
          "[image]") {
  const TempDir dir;
  test::write_classes(dir, "train", 6);
  const auto data = std::make_shared<const ImageFolder>(dir.file("train"), training_transforms(8));
  REQUIRE(data->size() == 12);
  const auto whole = images_of_epoch(data, {}, 0, 0);
  REQUIRE(whole.size() == 12);
  const auto same = [&](const std::map<std::int64_t, at::Tensor>& some, std::size_t samples) {
    CHECK(some.size() == samples);
    for (const auto& [index, image] : some) CHECK(at::equal(image, whole.at(index)));
  };
  same(images_of_epoch(data, {}, 2, 0), 12);
  same(images_of_epoch(data, {0, 2}, 2, 0), 6);
  same(images_of_epoch(data, {1, 2}, 0, 0), 6);
  same(images_of_epoch(data, {}, 0, 2), 4);
}

#endif
