#include "cxtrain/data/sharded_sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {

ShardedSampler::ShardedSampler(std::int64_t size, DataShard shard, const SamplerOptions& options)
    : size_(size), shard_(shard), options_(options) {
  if (options.batch_size < 1) {
    throw ConfigError("data.batch_size",
                      "a batch of " + std::to_string(options.batch_size) + " samples was asked for",
                      "use 1 or more", MessageCode::out_of_range);
  }
  if (size < 0 || shard.count < 1 || shard.index < 0 || shard.index >= shard.count) {
    throw std::invalid_argument("shard " + std::to_string(shard.index) + " of " +
                                std::to_string(shard.count) + " of " + std::to_string(size) +
                                " samples does not exist");
  }
  if (options.batch_size > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        "data.batch_size", "a batch of " + std::to_string(options.batch_size) + " samples was asked for",
        "the most is " + std::to_string(std::numeric_limits<std::int32_t>::max()), MessageCode::out_of_range);
  }
  // The order of an epoch: all of it where it is shuffled, and this shard's part.
  const double bytes =
      static_cast<double>(size) * sizeof(std::int64_t) * ((options.shuffle ? 1 : 0) + 1.0 / shard.count);
  if (bytes > static_cast<double>(total_memory_bytes())) {
    throw ConfigError("data",
                      "the dataset says that it has " + std::to_string(size) +
                          " samples; their order alone is more than this machine's memory",
                      "let Dataset::size() return the samples of one epoch", MessageCode::out_of_memory);
  }
  const std::int64_t full = options.batch_size * shard.count;
  const std::int64_t rest = size % full;
  std::int64_t last = 0;
  if (!options.drop_last) {
    const std::int64_t even = rest / shard.count * shard.count;
    switch (options.uneven) {
      case Uneven::pad:
        last = even == rest ? rest : even + shard.count;
        break;
      case Uneven::drop:
        last = even;
        break;
      case Uneven::exact:
        last = rest;
        break;
    }
  }
  num_batches_ = size / full + (last > 0 ? 1 : 0);
  last_global_size_ = last > 0 ? last : full;
  start_epoch(0);
}

void ShardedSampler::start_epoch(std::int64_t epoch) {
  if (!options_.shuffle && !indices_.empty()) {
    epoch_ = epoch;  // the order is the same in every epoch
    return;
  }
  epoch_ = epoch;
  indices_.clear();
  if (num_batches_ == 0) return;

  at::Tensor permutation;
  const std::int64_t* order = nullptr;
  if (options_.shuffle) {
    permutation =
        at::randperm(size_, at::detail::createCPUGenerator(options_.seed + static_cast<std::uint64_t>(epoch)),
                     at::TensorOptions().dtype(at::kLong));
    order = permutation.const_data_ptr<std::int64_t>();
  }
  indices_.reserve(
      static_cast<std::size_t>((num_batches_ - 1) * options_.batch_size + local_size(num_batches_ - 1)));
  const std::int64_t full = options_.batch_size * shard_.count;
  for (std::int64_t k = 0; k < num_batches_; ++k) {
    const std::int64_t end = k * full + global_size(k);
    for (std::int64_t i = k * full + shard_.index; i < end; i += shard_.count) {
      const std::int64_t wrapped = i < size_ ? i : i % size_;  // only padding reaches beyond the end
      indices_.push_back(order != nullptr ? order[wrapped] : wrapped);
    }
  }
}

std::span<const std::int64_t> ShardedSampler::batch(std::int64_t k) const {
  if (k < 0 || k >= num_batches_) {
    throw std::out_of_range("batch " + std::to_string(k) + " of " + std::to_string(num_batches_) +
                            " does not exist");
  }
  return std::span(indices_).subspan(static_cast<std::size_t>(k * options_.batch_size),
                                     static_cast<std::size_t>(local_size(k)));
}

std::int64_t ShardedSampler::global_size(std::int64_t k) const {
  return k + 1 == num_batches_ ? last_global_size_ : options_.batch_size * shard_.count;
}

std::int64_t ShardedSampler::local_size(std::int64_t k) const {
  const std::int64_t global = global_size(k);
  return global / shard_.count + (shard_.index < global % shard_.count ? 1 : 0);
}

}  // namespace cxtrain
