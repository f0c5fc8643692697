#include "mnist/mnist_data.h"

#include <filesystem>

#include "cxtrain/base/error.h"

namespace {

namespace fs = std::filesystem;
using cxtrain::DataError;

/// The file of this name, or of this name with .gz; empty when there is neither.
std::string find(const fs::path& folder, const std::string& name) {
  for (const fs::path& path : {folder / name, folder / (name + ".gz")}) {
    std::error_code unreadable;  // is none of the two; what is missing is said with the folder's name
    if (fs::is_regular_file(path, unreadable)) return path.string();
  }
  return {};
}

/// The pair `prefix`-images and -labels; null when neither file is there.
std::shared_ptr<const cxtrain::IdxDataset> read_pair(const fs::path& folder, const std::string& prefix) {
  const std::string images = find(folder, prefix + "-images-idx3-ubyte");
  const std::string labels = find(folder, prefix + "-labels-idx1-ubyte");
  if (images.empty() && labels.empty()) return nullptr;
  if (images.empty() || labels.empty()) {
    throw DataError("the folder '" + folder.string() + "' has " + (images.empty() ? labels : images) +
                        " but not the " + (images.empty() ? "images" : "labels") +
                        " that belong to it; fetch both",
                    cxtrain::MessageCode::file_failed);
  }
  auto data = cxtrain::read_idx(images, labels);
  if (data->images().size(1) != 28 || data->images().size(2) != 28) {
    throw DataError("'" + images + "' has images of " + std::to_string(data->images().size(1)) + " x " +
                    std::to_string(data->images().size(2)) + " pixels; this model takes 28 x 28");
  }
  return data;
}

}  // namespace

void MnistData::setup(cxtrain::Stage, const cxtrain::DataOptions& options) {
  if (options.path.empty()) {
    throw DataError("the model trains on MNIST: name the folder of its IDX files with --data.path",
                    cxtrain::MessageCode::file_failed);
  }
  const auto train = read_pair(options.path, "train");
  const auto t10k = read_pair(options.path, "t10k");
  if (!train && !t10k) {
    throw DataError(
        "the folder '" + options.path +
            "' holds neither train-images-idx3-ubyte nor t10k-images-idx3-ubyte, with .gz or without; name "
            "the folder of MNIST's files with --data.path",
        cxtrain::MessageCode::file_failed);
  }
  if (train && t10k) {
    train_ = train;
    val_ = t10k;
  } else {
    const auto& all = train ? train : t10k;
    const std::int64_t cut = all->size() / 10 * 9;
    if (cut == 0) {
      throw DataError("the folder '" + options.path + "' holds " + std::to_string(all->size()) +
                          " images, of which nine tenths are for training; 10 are needed",
                      cxtrain::MessageCode::no_data);
    }
    train_ = all->slice(0, cut);
    val_ = all->slice(cut, all->size());
  }
}
