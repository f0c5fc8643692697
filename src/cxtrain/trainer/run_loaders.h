#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cxtrain/base/stage.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {

/// Makes the loaders of a run, each of this rank's share of the data, by the options, the seed and the tuned
/// batch size of the run. All methods throw ConfigError, and talk to no other rank.
class RunLoaders {
 public:
  /// `context` outlives the object, and the loaders.
  explicit RunLoaders(const TrainContext& context) : context_(context) {}

  /// Returns the loader of training batches; null without data. `batch_size`: other than the run's.
  std::unique_ptr<DataLoader> training(const Loaders& loaders,
                                       std::optional<std::int64_t> batch_size = {}) const;
  /// Returns a loader for each of `loaders`.
  std::vector<std::unique_ptr<DataLoader>> evaluation(const Loaders& loaders, Stage stage) const;

 private:
  std::unique_ptr<DataLoader> combined(const Loaders& loaders, Combine mode, LoaderOptions options,
                                       std::optional<std::int64_t> batch_size) const;
  std::unique_ptr<DataLoader> of_stream(const DataLoaderSpec& spec, const LoaderOptions& options,
                                        std::optional<std::int64_t> batch_size = {}) const;
  void require_one_stream(const Loaders& loaders) const;
  /// A rank without samples runs no forward pass, which the other ranks' batch norms would wait for.
  void require_samples_everywhere(const ShardedSampler& sampler) const;
  ShardedSampler sampler_of(const DataLoaderSpec& spec, bool training,
                            std::optional<std::int64_t> batch_size = {}) const;
  std::int64_t batch_size_of(const DataLoaderSpec& spec, std::optional<std::int64_t> batch_size) const;
  DataShard shard() const;
  LoaderOptions options_of(const DataLoaderSpec& spec, Stage stage, std::size_t dataloader_idx) const;

  const TrainContext& context_;
};

}  // namespace cxtrain
