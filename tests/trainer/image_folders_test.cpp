#include "cxtrain/trainer/image_folders.h"

#include <filesystem>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/pictures.h"

#ifdef CXTRAIN_PNG

namespace cxtrain {
namespace {

using test::contains;
using test::error_of;
using test::TempDir;

std::int64_t samples_of(const Loaders& loaders) {
  return loaders.specs().empty() ? 0 : loaders.specs()[0].dataset->size();
}

TEST_CASE("image folders: each stage reads its folder, with the classes of the training") {
  const TempDir dir;
  test::write_classes(dir, "train", 3);
  test::write_classes(dir, "val", 2);
  test::write_classes(dir, "test", 1);
  std::filesystem::remove_all(dir.file("test/dark"));
  {
    ImageFolders data({.path = dir.path(), .batch_size = 5});
    data.setup(Stage::fit, {});
    CHECK(data.classes() == std::vector<std::string>{"dark", "light"});
    CHECK(samples_of(data.train_dataloader()) == 6);
    CHECK(data.train_dataloader().specs()[0].shuffle);
    CHECK(data.train_dataloader().specs()[0].batch_size == 5);
    CHECK(samples_of(data.val_dataloader()) == 4);
    CHECK(samples_of(data.test_dataloader()) == 0);
  }
  ImageFolders data({.train = {RandomResizedCrop{224}, RandomFlip{}}, .eval = {Resize{8}, CenterCrop{8}}});
  DataOptions options;
  options.path = dir.path();
  data.setup(Stage::test, options);
  REQUIRE(samples_of(data.test_dataloader()) == 1);
  SampleRandom random(0, 0, 0);
  const Batch sample = data.test_dataloader().specs()[0].dataset->get(0, random);
  CHECK(sample[0].sizes() == at::IntArrayRef({3, 8, 8}));
  CHECK(sample[1].item<std::int64_t>() == 1);  // light, also without dark
  CHECK(samples_of(data.predict_dataloader()) == 1);
}

TEST_CASE("image folders: missing folders are rejected with the expected layout") {
  const TempDir dir;
  const auto refused = [&](Stage stage, const std::string& path) {
    return error_of<Error>([&] { ImageFolders({.path = path}).setup(stage, {}); });
  };
  CHECK_THAT(refused(Stage::fit, ""), contains("--data.path"));
  CHECK_THAT(refused(Stage::fit, dir.path()), contains("has no folder 'train'"));
  CHECK_THAT(refused(Stage::validate, dir.path()), contains("has no folder 'val'"));
  CHECK_THAT(refused(Stage::predict, dir.path()), contains("has no folder 'test'"));
  test::write_classes(dir, "train", 1);
  ImageFolders data({.path = dir.path()});
  data.setup(Stage::fit, {});
  CHECK(data.val_dataloader().specs().empty());
  test::write_classes(dir, "val", 1);
  std::filesystem::rename(dir.file("val/dark"), dir.file("val/grey"));
  CHECK_THAT(refused(Stage::fit, dir.path()), contains("'grey', which the training data lacks"));
  std::filesystem::remove_all(dir.file("train"));  // a test set alone has the classes that it has
  test::write_classes(dir, "test", 1);
  ImageFolders alone({.path = dir.path()});
  alone.setup(Stage::test, {});
  CHECK(alone.classes() == std::vector<std::string>{"dark", "light"});
}

}  // namespace
}  // namespace cxtrain

#endif
