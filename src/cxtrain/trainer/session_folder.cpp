#include "cxtrain/trainer/session_folder.h"

#include <algorithm>
#include <exception>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"

namespace cxtrain {

void SessionFolder::open(Use use, const std::string& path, double timeout_seconds) {
  use_ = use;
  // The other ranks wait meanwhile.
  const double patience = std::min(kRunLockPatience, timeout_seconds / 2);
  run_agreed(world_, [&] {
    if (!world_.is_root()) return;
    path_ = use == Use::make ? make_version_dir(files_, path) : path;
    lock_ = use == Use::resume ? reopen_run_dir(files_, path_, patience)
                               : take_run_folder(files_, path_, patience);
  });
  path_ = world_.broadcast(path_);
  run_agreed(world_, [this] {
    if (!world_.is_root()) lock_ = join_run_folder(files_, path_);
  });
}

void SessionFolder::begin_files(const std::string& config) {
  begun_ = true;
  if (use_ == Use::extend) return;
  run_agreed(world_, [&] {
    if (log_) log_->open_file(files_, path_);
    if (!world_.is_root()) return;
    if (use_ == Use::resume) remove_end_of_run(files_, path_);
    if (!config.empty()) write_atomically(files_, path_ + "/config.yaml", config);
  });
}

void SessionFolder::write(const std::string& name, std::string_view content) const noexcept {
  if (!world_.is_root() || !begun_) return;
  try {
    write_atomically(files_, path_ + "/" + name, content);
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

void SessionFolder::write_predictions(const std::vector<Predictions>& predictions) const noexcept {
  if (path_.empty()) return;
  try {
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const std::string path = path_ + "/" + predictions_file(world_.rank(), i, predictions.size());
      const std::vector<char> bytes = to_pt(predictions[i]);
      write_atomically(files_, path, {bytes.data(), bytes.size()});
      log_info("predictions of " + std::to_string(predictions[i].indices.size()) + " samples: " + path);
    }
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

}  // namespace cxtrain
