#include "cxtrain/trainer/run_loaders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {
namespace {

std::int64_t batch_size_of(const TrainContext& context, const DataLoaderSpec& spec,
                           std::optional<std::int64_t> batch_size) {
  if (batch_size) return *batch_size;
  if (context.tuned.batch_size) return *context.tuned.batch_size;
  if (const auto given = context.parts.options.data.batch_size) return *given;
  if (spec.batch_size < 1)
    throw ConfigError("data", "a loader of the data has the batch size " + std::to_string(spec.batch_size),
                      "use 1 or more", MessageCode::out_of_range);
  return spec.batch_size;
}

DataShard shard_of(const TrainContext& context) {
  return context.parts.options.trainer.use_distributed_sampler ? context.parts.strategy.data_shard()
                                                               : DataShard{};
}

LoaderOptions loader_options(const TrainContext& context, const DataLoaderSpec& spec, Stage stage,
                             std::size_t dataloader_idx) {
  const DataOptions& options = context.parts.options.data;
  return {.num_workers = spec.num_workers.value_or(options.num_workers),
          .prefetch_factor = options.prefetch_factor,
          .stage = stage,
          .dataloader_idx = static_cast<int>(dataloader_idx),
          .to_device = !context.parts.device.is_cpu()};
}

std::unique_ptr<DataLoader> stream_loader(const TrainContext& context, const DataLoaderSpec& spec,
                                          const LoaderOptions& options,
                                          std::optional<std::int64_t> batch_size = {}) {
  return std::make_unique<DataLoader>(
      std::make_unique<StreamReader>(spec.stream, batch_size_of(context, spec, batch_size), spec.drop_last),
      StreamContext{.shard = shard_of(context), .seed = context.state.seed}, options);
}

void require_one_stream(const TrainContext& context, const Loaders& loaders) {
  if (loaders.specs().size() > 1)
    throw ConfigError("data", "a training loader with a stream was found beside other training loaders",
                      "read the other data in the stream, too", MessageCode::conflicting_options);
  if (context.parts.plan.sync_batchnorm)
    throw ConfigError("trainer.sync_batchnorm",
                      "needs samples on every rank in every step, and the stream of a rank may end first",
                      "leave it out, or use a Dataset", MessageCode::conflicting_options);
}

/// A rank without samples runs no forward pass, which the other ranks' batch norms would wait for.
void require_samples_everywhere(const ShardedSampler& sampler) {
  const std::int64_t last = sampler.last_global_size(), shards = sampler.shard().count;
  if (sampler.num_batches() == 0 || last >= shards) return;
  throw ConfigError("trainer.sync_batchnorm",
                    "needs samples on every rank in every step, but the epoch's last batch has " +
                        std::to_string(last) + " for " + std::to_string(shards) + " ranks",
                    "--data.uneven drop", MessageCode::conflicting_options);
}

ShardedSampler sampler_of(const TrainContext& context, const DataLoaderSpec& spec, bool training,
                          std::optional<std::int64_t> batch_size = {}) {
  const Options& options = context.parts.options;
  SamplerOptions sampling;
  sampling.batch_size = batch_size_of(context, spec, batch_size);
  sampling.shuffle = spec.shuffle && options.trainer.overfit_batches.is_zero();
  sampling.seed = context.state.seed;
  // Evaluation counts every sample once, on any number of ranks; padding would count some twice.
  sampling.uneven = training ? options.data.uneven : Uneven::exact;
  sampling.drop_last = spec.drop_last;
  if (options.trainer.overfit_batches.is_zero()) sampling.sampler = spec.sampler;
  return {spec.dataset->size(), shard_of(context), sampling};
}

}  // namespace

std::unique_ptr<DataLoader> training_loader(const TrainContext& context, const Loaders& loaders,
                                            std::optional<std::int64_t> batch_size) {
  if (loaders.specs().empty()) return nullptr;
  const Plan& plan = context.parts.plan;
  const Combine mode = loaders.mode().value_or(Combine::max_size_cycle);
  if (loaders.specs().size() > 1 && mode != Combine::sequential && plan.replicas > 1)
    throw ConfigError("trainer.strategy",
                      plan.strategy + " divides each batch among its replicas, and a batch of " +
                          std::to_string(loaders.specs().size()) + " loaders cannot be divided",
                      "--strategy ddp", MessageCode::conflicting_options);
  LoaderOptions options = loader_options(context, loaders.specs()[0], Stage::fit, 0);
  for (const DataLoaderSpec& spec : loaders.specs()) {
    if (!spec.stream) continue;
    require_one_stream(context, loaders);
    return stream_loader(context, spec, options, batch_size);
  }
  std::vector<EpochBatches::Loader> read;
  for (const DataLoaderSpec& spec : loaders.specs()) {
    const std::string name = spec.name.empty() ? std::to_string(read.size()) : spec.name;
    read.push_back({spec.dataset, sampler_of(context, spec, /*training=*/true, batch_size), name});
    options.num_workers =
        std::max(options.num_workers, loader_options(context, spec, Stage::fit, 0).num_workers);
    if (plan.sync_batchnorm) require_samples_everywhere(read.back().sampler);
  }
  return std::make_unique<DataLoader>(EpochBatches(std::move(read), mode), options);
}

std::vector<std::unique_ptr<DataLoader>> evaluation_loaders(const TrainContext& context,
                                                            const Loaders& loaders, Stage stage) {
  if (loaders.mode().value_or(Combine::sequential) != Combine::sequential)
    throw ConfigError("data",
                      "the loaders of " + std::string(name_of(stage)) +
                          " have a mode that reads them side by side, and are read one after the other",
                      "leave the mode out", MessageCode::conflicting_options);
  std::vector<std::unique_ptr<DataLoader>> made;
  for (const DataLoaderSpec& spec : loaders.specs()) {
    const LoaderOptions options = loader_options(context, spec, stage, made.size());
    made.push_back(spec.stream
                       ? stream_loader(context, spec, options)
                       : std::make_unique<DataLoader>(spec, sampler_of(context, spec, false), options));
  }
  return made;
}

}  // namespace cxtrain
