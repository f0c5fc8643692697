#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cxtrain/data/batch.h"

namespace cxtrain {

/// What a dataset may make its samples depend on, so that augmentation is another in every epoch and the same
/// whenever the run is repeated, on any number of ranks and workers: seed a generator with `seed`, `epoch`
/// and the sample's index.
struct SampleContext {
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;   ///< of the run
  bool pin_memory = false;  ///< the batch goes to a device: tensors made page-locked save a copy
};

/// A finite, indexable set of samples. Reading is `const` and called from several loader threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  /// Gathers the samples at `indices` (each in [0, size())) into `batch.tensors`, which is reused from an
  /// earlier call: CPU tensors, dimension 0 = indices.size(). `batch.size` is set already. A dataset whose
  /// samples do not change from epoch to epoch ignores `context`.
  virtual void collate(std::span<const std::int64_t> indices, const SampleContext& context,
                       Batch& batch) const = 0;

  /// What is left to do with a batch on the rank's device, such as turning bytes into floating-point numbers,
  /// which are then not what travels: Lightning's hook of this name. Called once for each batch; on CPUs by
  /// the thread that has collated it.
  virtual void on_after_batch_transfer(Batch&) const {}
};

/// What a loader calls: collates these samples, sets `batch.size` to their number and `batch.indices` to
/// their places. Throws DataError naming the dataset's class where `collate` has made no tensor, has set
/// another size, or dimension 0 of `batch[0]` is not the number of samples.
void collate_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                     const SampleContext& context, Batch& batch);

/// What a stage (train, val, test, predict) reads, and how.
struct DataLoaderSpec {
  std::shared_ptr<const Dataset> dataset;  ///< null: the stage has no data
  std::int64_t batch_size = 1;             ///< per rank and micro-batch; `--data.batch_size` replaces this
  bool shuffle = false;
  bool drop_last = false;  ///< leave out a last batch that is not full on every rank
};

}  // namespace cxtrain
