#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cxtrain/data/batch.h"

namespace cxtrain {

/// Values that a dataset may use to vary its samples. For augmentation, seed a generator with `seed`, `epoch`
/// and the sample's index. Samples then change from epoch to epoch, and repeat in every run, on any number of
/// ranks and workers.
struct SampleContext {
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;   ///< seed of the run
  bool pin_memory = false;  ///< the batch goes to a device: page-locked tensors save a copy
};

/// A finite, indexable set of samples. Reading is `const`, and several loader threads read at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  /// Gathers the samples at `indices` (each in [0, size())) into `batch.tensors`, which is reused from an
  /// earlier call: CPU tensors, dimension 0 = indices.size(). `batch.size` is set already. A dataset with
  /// samples that do not change from epoch to epoch ignores `context`.
  virtual void collate(std::span<const std::int64_t> indices, const SampleContext& context,
                       Batch& batch) const = 0;

  /// Finishes a batch on the rank's device: Lightning's hook of this name. For example, bytes travel to the
  /// device and become floating-point numbers there. Called once for each batch; on CPUs by the thread that
  /// collated it.
  virtual void on_after_batch_transfer(Batch&) const {}
};

/// Collates samples for a loader. Sets `batch.size` to the number of samples and `batch.indices` to
/// `indices`. Throws DataError, with the dataset's class, if `collate` makes no tensor, sets another size, or
/// makes a `batch[0]` with another number of samples in dimension 0.
void collate_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                     const SampleContext& context, Batch& batch);

/// The data of a stage (train, val, test, predict), and how to read them.
struct DataLoaderSpec {
  std::shared_ptr<const Dataset> dataset;  ///< null: the stage has no data
  std::int64_t batch_size = 1;             ///< per rank and micro-batch; `--data.batch_size` replaces this
  bool shuffle = false;
  bool drop_last = false;  ///< leave out a last batch that is not full on every rank
};

}  // namespace cxtrain
