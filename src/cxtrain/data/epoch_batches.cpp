#include "cxtrain/data/epoch_batches.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/data/dataset_views.h"

namespace cxtrain {

EpochBatches::EpochBatches(std::vector<Loader> loaders, Combine mode) : mode_(mode) {
  if (loaders.empty() || !loaders[0].dataset) throw std::invalid_argument("a DataLoader needs a dataset");
  std::vector<std::shared_ptr<const Dataset>> datasets;
  for (Loader& loader : loaders) {
    datasets.push_back(loader.dataset);
    sources_.push_back({std::move(loader.dataset), std::move(loader.name), {std::move(loader.sampler)}});
  }
  dataset_ = concat(std::move(datasets));
  if (!sequential()) require_parts();
  std::int64_t least = sources_[0].sampler().num_batches(), most = 0, sum = 0;
  for (const Source& source : sources_) {
    const std::int64_t batches = source.sampler().num_batches(), size = source.sampler().global_batch_size();
    least = std::min(least, batches);
    most = std::max(most, batches);
    sum += batches;
    global_batch_size_ = sequential() ? std::max(global_batch_size_, size) : global_batch_size_ + size;
  }
  num_batches_ = sequential() ? sum : mode == Combine::min_size ? least : most;
  if (sequential() || mode != Combine::max_size_cycle) return;
  for (Source& source : sources_) {
    const std::int64_t passes = divide_up(num_batches_, source.sampler().num_batches());
    source.passes.resize(static_cast<std::size_t>(passes), source.sampler());
  }
  start_epoch(0);
}

/// A rank without a sample of each loader would weigh the loss of its step wrongly.
void EpochBatches::require_parts() const {
  std::set<std::string> names;
  for (const Source& source : sources_) {
    const std::string loader = "the training loader '" + source.name + "'";
    const bool new_name = names.insert(source.name).second;
    if (!new_name || source.name.empty() || source.name.find('.') != std::string::npos)
      throw ConfigError("data", "the names of training loaders differ and have no dots, found " + loader,
                        "set DataLoaderSpec::name", MessageCode::invalid_value);
    const ShardedSampler& sampler = source.sampler();
    if (sampler.num_batches() == 0)
      throw ConfigError("data", loader + " makes no batch",
                        "leave it out, or use a smaller batch size or fewer ranks", MessageCode::no_data);
    const std::int64_t last = sampler.last_global_size(), ranks = sampler.shard().count;
    if (last % ranks == 0) continue;
    throw ConfigError("data.uneven",
                      "exact was asked for, but the last batch of " + loader + " has " +
                          std::to_string(last) + " samples for " + std::to_string(ranks) +
                          " ranks, and each rank needs as many samples of each loader",
                      "--data.uneven pad or drop", MessageCode::conflicting_options);
  }
}

void EpochBatches::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  for (Source& source : sources_) {
    const auto passes = static_cast<std::int64_t>(source.passes.size());
    // Each pass counts as an epoch of the loader: a loader that is shuffled has another order in each.
    for (std::int64_t pass = 0; pass < passes; ++pass)
      source.passes[static_cast<std::size_t>(pass)].start_epoch(epoch * passes + pass);
  }
}

EpochBatches::Turn EpochBatches::turn(std::int64_t k) const {
  Turn turn{.k = k};
  while (turn.loader + 1 < sources_.size() && turn.k >= sources_[turn.loader].sampler().num_batches())
    turn.k -= sources_[turn.loader++].sampler().num_batches();
  return turn;
}

std::vector<EpochBatches::Turn> EpochBatches::turns(std::int64_t k) const {
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::int64_t batches = sources_[i].sampler().num_batches();
    if (static_cast<std::size_t>(k / batches) < sources_[i].passes.size())
      turns.push_back({i, k / batches, k % batches});
  }
  return turns;
}

std::int64_t EpochBatches::global_size(std::int64_t k) const {
  if (sequential()) {
    const Turn only = turn(k);
    return sampler(only).global_size(only.k);
  }
  std::int64_t size = 0;
  for (const Turn& turn : turns(k)) size += sampler(turn).global_size(turn.k);
  return size;
}

/// Only the last batch of a loader is smaller than the others.
std::int64_t EpochBatches::smallest_global_size(std::int64_t batches) const {
  if (sources_.size() == 1) return batches > 0 ? global_size(batches - 1) : 0;
  std::int64_t smallest = global_batch_size_;
  for (const Source& source : sources_) smallest = std::min(smallest, source.sampler().last_global_size());
  return smallest;
}

void EpochBatches::collate(const Turn& turn, bool pin_memory, Batch& batch) const {
  const ShardedSampler& from = sampler(turn);
  collate_samples(*sources_[turn.loader].dataset, from.batch(turn.k),
                  {.epoch = from.epoch(), .seed = from.seed(), .pin_memory = pin_memory}, batch);
}

void EpochBatches::collate(std::int64_t k, bool pin_memory, Batch& batch) const {
  if (sequential()) return collate(turn(k), pin_memory, batch);
  std::vector<Batch::Named> parts;
  for (const Turn& turn : turns(k)) {
    parts.push_back({sources_[turn.loader].name, {}});
    collate(turn, pin_memory, parts.back().second);
  }
  batch = Batch::joined(parts);
}

void EpochBatches::finish(std::int64_t k, Batch& batch) const {
  if (sequential()) return sources_[turn(k).loader].dataset->on_after_batch_transfer(batch);
  std::vector<Batch::Named> parts;
  for (const Turn& turn : turns(k)) {
    const Source& source = sources_[turn.loader];
    parts.emplace_back(source.name, batch.part(source.name));
    source.dataset->on_after_batch_transfer(parts.back().second);
  }
  batch = Batch::joined(parts);
}

}  // namespace cxtrain
