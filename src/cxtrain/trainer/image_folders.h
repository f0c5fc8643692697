#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/data/image_folder.h"
#include "cxtrain/data/image_transforms.h"
#include "cxtrain/trainer/data_module.h"

namespace cxtrain {

/// Pictures in the folders `train`, `val` and `test` of a folder, each with a sub-folder for each class
/// (`ImageFolder`). The classes of `train`, sorted, have the numbers from 0 on; `val` and `test` may lack
/// some. `batch[0]` is float32 [B, 3, height, width], `batch[1]` the number of the class, int64 [B].
///
///     ImageFolders data({.path = "imagenet",
///                        .batch_size = 256,
///                        .train = {RandomResizedCrop{224}, RandomFlip{}},
///                        .eval = {Resize{256}, CenterCrop{224}}});
///
/// A training needs `train`, and validates if there is `val`. A test and a prediction read `test`.
class ImageFolders : public DataModule {
 public:
  struct Args {
    std::string path = {};         ///< `--data.path` replaces this
    std::int64_t batch_size = 32;  ///< per rank; `--data.batch_size` replaces this
    ImageTransforms train = training_transforms();
    ImageTransforms eval = evaluation_transforms();  ///< of `val` and `test`
  };
  explicit ImageFolders(Args args) : args_(std::move(args)) {}

  /// Throws ConfigError without a path, and DataError if a folder that the stage needs is missing or has no
  /// pictures.
  void setup(Stage stage, const DataOptions& options) override;

  Loaders train_dataloader() override { return {train_, args_.batch_size, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {val_, args_.batch_size}; }
  Loaders test_dataloader() override { return {test_, args_.batch_size}; }
  Loaders predict_dataloader() override { return {test_, args_.batch_size}; }

  /// Returns the names of the classes, in the order of their numbers; empty before `setup`.
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  Args args_;
  std::vector<std::string> classes_;
  std::shared_ptr<const ImageFolder> train_, val_, test_;
};

}  // namespace cxtrain
