#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cxtrain/base/stage.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/train_context.h"

/// The loaders of a run, each of this rank's share of the data, by the options, the seed and the tuned batch
/// size of the run. The context outlives the loaders. The functions throw ConfigError, and talk to no other
/// rank.
namespace cxtrain {

/// Returns the loader of training batches; null without data. `batch_size`: instead of the run's.
std::unique_ptr<DataLoader> training_loader(const TrainContext& context, const Loaders& loaders,
                                            std::optional<std::int64_t> batch_size = {});
/// Returns a loader for each of `loaders`.
std::vector<std::unique_ptr<DataLoader>> evaluation_loaders(const TrainContext& context,
                                                            const Loaders& loaders, Stage stage);

}  // namespace cxtrain
