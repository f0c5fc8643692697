#include "cxtrain/data/sharded_sampler.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"

namespace cxtrain {

void require_samples_of_batch(std::int64_t batch_size) {
  if (batch_size >= 1) return;
  throw ConfigError("data.batch_size", "a batch of " + std::to_string(batch_size) + " samples was asked for",
                    "use 1 or more", MessageCode::out_of_range);
}

ShardedSampler::ShardedSampler(std::int64_t samples, DataShard shard, const SamplerOptions& options)
    : samples_(samples), size_(0), shard_(shard), options_(options) {
  require_samples_of_batch(options.batch_size);
  if (samples < 0 || shard.count < 1 || shard.index < 0 || shard.index >= shard.count) {
    throw std::invalid_argument("shard " + std::to_string(shard.index) + " of " +
                                std::to_string(shard.count) + " of " + std::to_string(samples) +
                                " samples does not exist");
  }
  if (options.batch_size > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        "data.batch_size", "a batch of " + std::to_string(options.batch_size) + " samples was asked for",
        "the most is " + std::to_string(std::numeric_limits<std::int32_t>::max()), MessageCode::out_of_range);
  }
  if (!options_.sampler) {
    options_.sampler = options.shuffle ? std::shared_ptr<const Sampler>(std::make_shared<ShuffleSampler>())
                                       : std::make_shared<SequentialSampler>();
  }
  const std::int64_t size = size_ = options_.sampler->size(samples);
  if (size < 0)
    throw std::invalid_argument("the sampler has an epoch of " + std::to_string(size) + " samples");
  const std::int64_t count = shard.count, full = options.batch_size * count;
  const std::int64_t rest = options.drop_last ? 0 : size % full;
  const std::int64_t last = options.uneven == Uneven::pad    ? round_up(rest, count)
                            : options.uneven == Uneven::drop ? rest / count * count
                                                             : rest;
  num_batches_ = size / full + (last > 0 ? 1 : 0);
  last_global_size_ = last > 0 ? last : full;
  start_epoch(0);
}

void ShardedSampler::start_epoch(std::int64_t epoch) {
  if (order_ && epoch == epoch_) return;
  epoch_ = epoch;
  if (num_batches_ == 0) return;
  order_ = options_.sampler->order(samples_, options_.seed, epoch);
  if (!order_) throw DataError("the sampler has returned no order for epoch " + std::to_string(epoch));
}

std::vector<std::int64_t> ShardedSampler::batch(std::int64_t k) const {
  if (k < 0 || k >= num_batches_) {
    throw std::out_of_range("batch " + std::to_string(k) + " of " + std::to_string(num_batches_) +
                            " does not exist");
  }
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(divide_up(global_size(k), std::int64_t{shard_.count})));
  const std::int64_t begin = k * options_.batch_size * shard_.count, end = begin + global_size(k);
  for (std::int64_t i = begin + shard_.index; i < end; i += shard_.count) {
    const std::int64_t wrapped = i < size_ ? i : i % size_;  // only padding reaches beyond the end
    indices.push_back(order_->at(wrapped));
    if (indices.back() < 0 || indices.back() >= samples_) {
      throw DataError("the sampler names sample " + std::to_string(indices.back()) + " of a dataset of " +
                      std::to_string(samples_));
    }
  }
  return indices;
}

}  // namespace cxtrain
