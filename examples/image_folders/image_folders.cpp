// `--data image_folders --data.path DIR`: pictures in DIR/train, DIR/val and DIR/test, for any model that
// takes float32 [B, 3, image_size, image_size] and the numbers of the classes.

#include "cxtrain/trainer/image_folders.h"

#include "cxtrain/plugin/plugin_abi.h"

namespace {

class SquarePictures final : public cxtrain::ImageFolders {
 public:
  struct Args {
    std::int64_t image_size = 224;

    void fields(auto&& field) {
      field("image_size", image_size, "width and height of the pictures, in pixels",
            cxtrain::Range::between(1, 8192));
    }
  };
  explicit SquarePictures(const Args& args)
      : ImageFolders({.train = cxtrain::training_transforms(args.image_size),
                      .eval = cxtrain::evaluation_transforms(args.image_size)}) {}
};

}  // namespace

CXTRAIN_PLUGIN("image_folders", [](cxtrain::Registry& registry) {
  registry.add<SquarePictures>(
      "image_folders", "JPEG and PNG files in --data.path: train, val, test, each with a folder per class");
})
