#include "cxtrain/trainer/fit_data.h"

#include "cxtrain/base/error.h"

namespace cxtrain {

FitData::FitData(std::function<Loaders()> make, const TrainerOptions& options,
                 std::optional<std::int64_t> model_max_epochs)
    : make_(std::move(make)), options_(options), model_max_epochs_(model_max_epochs) {
  load();
}

void FitData::load() {
  loaders_ = {};  // the old ones' threads and memory first
  loaders_ = make_();
  if (!loaders_.train) throw ConfigError("data", "has no training samples");
  limits_ = fit_limits(options_, model_max_epochs_, loaders_.train->num_batches(),
                       loaders_.val ? loaders_.val->num_batches() : 0);
}

void FitData::prepare_epoch(std::int64_t epoch) {
  const std::int64_t every = options_.reload_dataloaders_every_n_epochs;
  if (every <= 0 || epoch - loaded_for_ < every) return;
  load();
  loaded_for_ = epoch;
}

}  // namespace cxtrain
