#include "cxtrain/trainer/image_folders.h"

#include <filesystem>
#include <system_error>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {
namespace {

bool has_folder(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_directory(path, unknown);
}

}  // namespace

void ImageFolders::setup(Stage stage, const DataOptions& options) {
  const std::string root = options.path.empty() ? args_.path : options.path;
  if (root.empty())
    throw ConfigError("data.path", "no folder of pictures is named",
                      "--data.path DIR, a folder with the folders train, val and test",
                      MessageCode::missing_value);
  const auto require = [&](const std::string& split) {
    if (has_folder(root + "/" + split)) return;
    throw DataError("'" + root + "' has no folder '" + split +
                        "'; name a folder with the folders train, val and test, each with a folder for each "
                        "class",
                    MessageCode::no_data);
  };
  const bool trains = stage == Stage::fit || stage == Stage::tune;
  const bool has_training = has_folder(root + "/train");
  if (trains) require("train");
  if (!has_training)
    log_warning("'" + root +
                "' has no folder 'train': the classes are numbered as in the folder that is read, "
                "which must have all classes of the training");
  classes_ = has_training ? class_folders(root + "/train") : std::vector<std::string>{};
  const auto read = [&](const std::string& split, const ImageTransforms& transforms,
                        const std::vector<std::string>& classes) {
    require(split);
    return std::make_shared<const ImageFolder>(root + "/" + split, transforms, classes);
  };
  if (trains) train_ = read("train", args_.train, {});
  if (stage == Stage::validate || (trains && has_folder(root + "/val")))
    val_ = read("val", args_.eval, classes_);
  if (stage == Stage::test || stage == Stage::predict) test_ = read("test", args_.eval, classes_);
  if (classes_.empty()) classes_ = (val_ ? val_ : test_)->classes();
}

}  // namespace cxtrain
