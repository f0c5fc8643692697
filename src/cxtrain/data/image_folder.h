#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/data/dataset.h"
#include "cxtrain/data/image_transforms.h"

namespace cxtrain {

/// Returns the names of the sub-folders, sorted, except those that begin with a dot. Throws DataError if the
/// folder cannot be listed.
std::vector<std::string> class_folders(const std::string& path);

/// The pictures of a folder with a sub-folder for each class: torchvision's ImageFolder. A sample is the
/// picture and the number of its class (int64). Files are read when the sample is.
///
/// Pictures are the files below a class's folder whose names end in .jpg, .jpeg or .png, in upper or lower
/// case. Names that begin with a dot are left out. Links are followed, except those to folders within the
/// folder of a class.
class ImageFolder final : public Dataset {
 public:
  /// Lists the files. `classes`: names of sub-folders, in the order of their numbers; empty: all sub-folders,
  /// sorted. Throws DataError if the folder cannot be listed, has no class or one that is not in `classes`,
  /// or, without `classes`, has a class without pictures.
  explicit ImageFolder(std::string path, ImageTransforms transforms, std::vector<std::string> classes = {});

  std::int64_t size() const override { return static_cast<std::int64_t>(begins_.size()) - 1; }
  /// Reads the file and applies the transforms in their order. Throws DataError with the index and the file.
  Batch get(std::int64_t index, SampleRandom& random) const override;
  /// Converts pictures of three channels of uint8 to float32: from 0 to 1, then minus `kMean`, divided by
  /// `kDeviation`. Leaves others as they are.
  void on_after_batch_transfer(Batch& batch) const override;

  /// Of ImageNet's pictures, from torchvision's references/classification/presets.py.
  static constexpr double kMean[3] = {0.485, 0.456, 0.406};
  static constexpr double kDeviation[3] = {0.229, 0.224, 0.225};

  const std::vector<std::string>& classes() const { return classes_; }
  /// Returns the path of a sample's file.
  std::string file(std::int64_t index) const;
  /// Returns the class of a sample.
  std::int64_t label(std::int64_t index) const;

 private:
  void list(const std::string& name, bool required);

  std::string path_;
  ImageTransforms transforms_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> class_ends_;   ///< samples of the class and of those before it
  std::string names_;                      ///< of all files, within their class's folder: millions of them
  std::vector<std::size_t> begins_ = {0};  ///< of each file's name in `names_`, and the end
};

}  // namespace cxtrain
