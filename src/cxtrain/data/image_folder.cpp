#include "cxtrain/data/image_folder.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/data/image_file.h"

namespace cxtrain {
namespace {

namespace fs = std::filesystem;

/// For a message of one line.
std::string quoted_path(std::string path) {
  std::ranges::replace(path, '\n', '?');
  return "'" + path + "'";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool is_image_name(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

[[noreturn]] void refuse_folder(const std::string& path, const std::string& why) {
  throw DataError(
      "cannot list the folder " + quoted_path(path) + ": " + why + "; check the path and its permissions",
      MessageCode::file_failed);
}

/// The pictures below a folder, as paths within it.
std::vector<std::string> image_files(const std::string& path) {
  std::vector<std::string> files;
  try {
    for (fs::recursive_directory_iterator entry(path), end; entry != end; ++entry) {
      std::error_code broken;  // a link that leads nowhere: reading it says so
      const bool hidden = is_hidden(entry->path());
      if (hidden) entry.disable_recursion_pending();
      if (hidden || !is_image_name(entry->path()) || entry->is_directory(broken)) continue;
      files.push_back(entry->path().string().substr(path.size() + 1));
    }
  } catch (const fs::filesystem_error& error) {
    refuse_folder(path, error.code().message());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> class_folders(const std::string& path) {
  std::vector<std::string> names;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      std::error_code broken;
      if (!is_hidden(entry.path()) && entry.is_directory(broken))
        names.push_back(entry.path().filename().string());
    }
  } catch (const fs::filesystem_error& error) {
    refuse_folder(path, error.code().message());
  }
  std::ranges::sort(names);
  return names;
}

ImageFolder::ImageFolder(std::string path, ImageTransforms transforms, std::vector<std::string> classes)
    : path_(std::move(path)), transforms_(std::move(transforms)), classes_(std::move(classes)) {
  const std::vector<std::string> found = class_folders(path_);
  if (found.empty())
    throw DataError("the folder " + quoted_path(path_) +
                        " has no folder of a class; make a folder for each class, with its pictures",
                    MessageCode::no_data);
  const bool own = classes_.empty();
  if (own) classes_ = found;
  for (const std::string& name : found) {
    if (std::ranges::find(classes_, name) != classes_.end()) continue;
    throw DataError("the folder " + quoted_path(path_) + " has the class " + quoted_path(name) +
                    ", which the training data lacks; remove the class, or add it there");
  }
  for (const std::string& name : classes_) list(name, own);
  if (size() == 0)
    throw DataError("the folder " + quoted_path(path_) +
                        " has no file that ends in .jpg, .jpeg or .png in the folders of its classes",
                    MessageCode::no_data);
}

void ImageFolder::list(const std::string& name, bool required) {
  const std::string folder = path_ + "/" + name;
  std::error_code unknown;
  if (required || fs::is_directory(folder, unknown)) {
    const std::vector<std::string> files = image_files(folder);
    if (files.empty() && required)
      throw DataError("the class " + quoted_path(folder) +
                          " has no file that ends in .jpg, .jpeg or .png; add pictures, or remove the folder",
                      MessageCode::no_data);
    for (const std::string& file : files) {
      names_ += file;
      begins_.push_back(names_.size());
    }
  }
  class_ends_.push_back(size());
}

std::int64_t ImageFolder::label(std::int64_t index) const {
  return std::ranges::upper_bound(class_ends_, index) - class_ends_.begin();
}

std::string ImageFolder::file(std::int64_t index) const {
  const auto i = static_cast<std::size_t>(index);
  return path_ + "/" + classes_[static_cast<std::size_t>(label(index))] + "/" +
         names_.substr(begins_[i], begins_[i + 1] - begins_[i]);
}

Batch ImageFolder::get(std::int64_t index, SampleRandom& random) const {
  const std::string path = file(index);
  const auto refuse = [index](const std::string& why, MessageCode code) {
    return DataError("sample " + std::to_string(index) + ": " + why, code);
  };
  at::Tensor image;
  try {
    image = read_image(path);
  } catch (const std::exception& error) {
    throw refuse(message_of(error), message_code_of(error));
  }
  try {
    for (const ImageTransform& transform : transforms_) image = transform(image, random);
  } catch (const std::exception& error) {
    throw refuse(quoted_path(path) + ": " + message_of(error), MessageCode::bad_data);
  }
  return {{image, at::scalar_tensor(label(index), at::kLong)}};
}

void ImageFolder::on_after_batch_transfer(Batch& batch) const {
  at::Tensor& images = batch.tensors[0];
  if (images.scalar_type() != at::kByte || images.dim() != 4 || images.size(1) != 3) return;
  images = images.to(at::kFloat).div_(255);
  for (std::int64_t c = 0; c < 3; ++c) images.select(1, c).sub_(kMean[c]).div_(kDeviation[c]);
}

}  // namespace cxtrain
