#include "cxtrain/trainer/chosen_checkpoint_folder.h"

namespace cxtrain {

std::string chosen_checkpoint_folder(const Options& options) {
  const auto dirpath_of = [](const NamedOptions& callback) {
    const auto dirpath = callback.args.find("dirpath");
    return dirpath == callback.args.end() ? std::string() : dirpath->second;
  };
  // A callback of that name stands in the place of the one by default, whose arguments are defaults of its
  // own.
  for (const NamedOptions& callback : options.callbacks) {
    if (callback.name == options.checkpoint.name && callback.args.contains("dirpath"))
      return dirpath_of(callback);
  }
  return dirpath_of(options.checkpoint);
}

}  // namespace cxtrain
