#include "cxtrain/data/data_loader.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/data/loader_workers.h"

namespace cxtrain {

DataLoader::DataLoader(const DataLoaderSpec& spec, ShardedSampler sampler, const LoaderOptions& options)
    : dataset_(spec.dataset), sampler_(std::move(sampler)), options_(options) {
  if (!dataset_) throw std::invalid_argument("a DataLoader needs a dataset");
  if (options.num_workers < 0) {
    throw ConfigError("data.num_workers", std::to_string(options.num_workers) + " workers were asked for",
                      "use 0 (no threads) or more");
  }
  if (options.prefetch_factor < 1) {
    throw ConfigError("data.prefetch_factor",
                      std::to_string(options.prefetch_factor) + " batches ahead of a worker were asked for",
                      "use 1 or more");
  }
  options_.pin_memory = options.pin_memory && at::detail::getCUDAHooks().hasCUDA();
}

DataLoader::~DataLoader() = default;

void DataLoader::start_epoch(std::int64_t epoch, std::int64_t first_batch,
                             std::optional<std::int64_t> last_batch) {
  workers_.reset();  // they read the sampler
  sampler_.start_epoch(epoch);
  position_ = std::max<std::int64_t>(first_batch, 0);
  end_ = std::min(last_batch.value_or(sampler_.num_batches()), sampler_.num_batches());
  if (options_.num_workers > 0 && position_ < end_) {
    workers_ =
        std::make_unique<LoaderWorkers>([this](std::int64_t k, Batch& batch) { collate(k, batch); },
                                        position_, end_, options_.num_workers, options_.prefetch_factor);
  }
}

bool DataLoader::next(Batch& batch) {
  if (position_ >= end_) {
    workers_.reset();
    return false;
  }
  const std::int64_t k = position_++;
  try {
    if (workers_) {
      workers_->take(k, batch);
    } else {
      collate(k, batch);
    }
  } catch (...) {
    workers_.reset();
    end_ = position_;
    throw;
  }
  return true;
}

void DataLoader::collate(std::int64_t k, Batch& batch) const {
  const std::span<const std::int64_t> indices = sampler_.batch(k);
  dataset_->collate(indices, {.epoch = sampler_.epoch(), .seed = sampler_.seed()}, batch);
  batch.indices = indices;
  if (!options_.pin_memory) return;
  for (at::Tensor& tensor : batch.tensors) tensor = tensor.pin_memory();
}

}  // namespace cxtrain
