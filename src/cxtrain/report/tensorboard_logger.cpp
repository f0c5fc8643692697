#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/report/file_loggers.h"
#include "cxtrain/report/png.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/report/tensorboard/event_writer.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {
namespace {

std::string name_of_events(const EventWriter& writer) {
  return writer.path().substr(writer.path().rfind('/') + 1);
}

}  // namespace

TensorBoardLogger::TensorBoardLogger(Filesystem& files, const std::string& directory)
    : files_(files), directory_(directory), writer_(std::make_unique<EventWriter>(files, directory)) {}

TensorBoardLogger::~TensorBoardLogger() = default;

void TensorBoardLogger::log_hyperparams(const Hyperparameters& hparams) {
  hparams_ = hparams;
  writer().add_hyperparameters(seconds_since_1970(), hparams);
}

void TensorBoardLogger::log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) {
  std::vector<Metric> scalars(metrics.begin(), metrics.end());
  scalars.emplace_back("epoch", static_cast<double>(epoch));
  writer().add_scalars(step, seconds_since_1970(), scalars);
}

bool TensorBoardLogger::log_image(std::string_view name, const at::Tensor& image, std::int64_t step) {
  writer().add_image(step, seconds_since_1970(), name,
                     {image.size(1), image.size(2), image.size(0), to_png(image)});
  return true;
}

bool TensorBoardLogger::log_text(std::string_view name, std::string_view text, std::int64_t step) {
  writer().add_text(step, seconds_since_1970(), name, printable(text));
  return true;
}

void TensorBoardLogger::flush() {
  if (writer_) writer_->flush();
}

EventWriter& TensorBoardLogger::writer() {
  if (!writer_) writer_ = std::make_unique<EventWriter>(files_, directory_);
  return *writer_;
}

void TensorBoardLogger::on_save_checkpoint(StateDict& state) {
  for (const auto& [name, bytes] : earlier_) state.set(name, bytes);
  state.set(name_of_events(writer()), writer().size());
}

void TensorBoardLogger::on_load_checkpoint(const StateDict& state, const RunFolder& from) {
  if (from.path.empty()) return;
  // The file that was begun has no rows of metrics yet: it comes again behind the earlier ones, under a name
  // of its own.
  const std::string begun = writer().path();
  writer_.reset();
  files_.remove(begun);
  const bool in_place = from.path == directory_;
  for (const auto& [name, value] : state.values()) {
    // Files of these names are written: a checkpoint may come from somebody else.
    if (!name.starts_with(kEventsPrefix) || name.find('/') != std::string::npos) {
      throw StateError("the TensorBoard logger's state names the file '" + shortened(name, 100) +
                       "', which is none of TensorBoard's: the checkpoint is damaged or was changed");
    }
    const std::string records =
        read_saved_rows(files_, from.path + "/" + name, state.integer(name), whole_records);
    if (records.empty()) continue;
    const std::string path = directory_ + "/" + name;
    if (in_place) {
      files_.append_to(path)->truncate(records.size());
    } else {
      write_atomically(files_, path, records);
    }
    earlier_[name] = records.size();
  }
  if (in_place) remove_later_files(state);
  writer();
  if (!hparams_.empty()) log_hyperparams(Hyperparameters(hparams_));
}

/// Those that a run began after the state was saved.
void TensorBoardLogger::remove_later_files(const StateDict& state) {
  for (const std::string& name : files_.list(directory_)) {
    if (name.starts_with(kEventsPrefix) && !state.has(name)) files_.remove(directory_ + "/" + name);
  }
}

}  // namespace cxtrain
