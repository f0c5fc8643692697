#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/data/batch.h"
#include "cxtrain/data/sample_random.h"
#include "cxtrain/data/sampler.h"
#include "cxtrain/data/stream_dataset.h"

namespace cxtrain {

/// The epoch for which samples are read.
struct SampleContext {
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;   ///< seed of the run
  bool pin_memory = false;  ///< the batch goes to a device: page-locked tensors save a copy
  int layer = 0;            ///< datasets that lie over this one and draw random numbers (`map`)
};

/// A finite, indexable set of samples. Reading is `const`, and several loader threads read at once.
///
/// A class defines `size`, and either `get`, which returns one sample, or `collate`, which fills a batch and
/// is faster where rows are copied.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;

  /// Returns the sample at `index` in [0, size()): CPU tensors without a dimension for samples, with names or
  /// without, and objects of one sample. `random`: for augmentation; its numbers depend on (seed, epoch,
  /// index) alone. By default reads a batch of one sample.
  virtual Batch get(std::int64_t index, SampleRandom& random) const;

  /// Gathers the samples at `indices` (each in [0, size())) into `batch.tensors`, which is reused from an
  /// earlier call: CPU tensors, dimension 0 = indices.size(). `batch.size` is set already. By default gets
  /// each sample, and stacks them. Throws DataError, with the shapes, if the samples cannot be stacked.
  virtual void collate(std::span<const std::int64_t> indices, const SampleContext& context,
                       Batch& batch) const;

  /// Finishes a batch on the rank's device: Lightning's hook of this name. For example, bytes travel to the
  /// device and become floating-point numbers there. Called once for each batch; on CPUs by the thread that
  /// collated it.
  virtual void on_after_batch_transfer(Batch&) const {}
};

/// Stacks samples into `batch.tensors`, page-locked if the context wants it: torch's default_collate. Objects
/// collate themselves. Each sample has the same names, tensors of the same shapes and dtypes, and objects of
/// the same classes. Throws DataError that names what differs. `indices`: of the samples, for the message.
void stack_samples(std::span<const Batch> samples, std::span<const std::int64_t> indices,
                   const SampleContext& context, Batch& batch);

/// Returns the sample at `index`, of any dataset.
Batch sample_of(const Dataset& dataset, std::int64_t index, const SampleContext& context);

/// Collates samples for a loader. Sets `batch.size` to the number of samples and `batch.indices` to
/// `indices`. Without samples the batch has no tensors, and the dataset is not called. Throws DataError, with
/// the dataset's class, if `collate` makes no tensor and no object, sets another size, or makes an object or
/// a `batch[0]` with another number of samples.
void collate_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                     const SampleContext& context, Batch& batch);

/// The data of a stage (train, val, test, predict), and how to read them.
struct DataLoaderSpec {
  std::shared_ptr<const Dataset> dataset;  ///< null, without a stream: the stage has no data
  std::int64_t batch_size = 1;             ///< per rank and micro-batch; `--data.batch_size` replaces this
  bool shuffle = false;
  bool drop_last = false;  ///< leave out a last batch that is not full on every rank
  /// The order of the samples; null: sequential, or shuffled with `shuffle`.
  std::shared_ptr<const Sampler> sampler = {};
  /// Threads that collate ahead; absent: `--data.num_workers`. Training loaders that are read side by side
  /// share the threads of the loader that has most.
  std::optional<int> num_workers = {};
  /// Name of the loader's part in a batch of several loaders; empty: the loader's number.
  std::string name = {};
  /// Samples without an index, in place of a dataset. The other members except `batch_size`, `drop_last` and
  /// `num_workers` have no effect.
  std::shared_ptr<const StreamDataset> stream = {};
};

/// How a training reads several loaders: the modes of Lightning's CombinedLoader.
enum class Combine {
  max_size_cycle,  ///< side by side to the end of the longest loader; a shorter loader begins again
  max_size,    ///< side by side to the end of the longest loader; batches lack the part of a shorter loader
  min_size,    ///< side by side to the end of the shortest loader
  sequential,  ///< one loader after the other
};

/// The loaders of a stage: as a rule one, or several, or none. Evaluations and predictions read several
/// loaders one after the other. A training reads them side by side, unless a mode says otherwise:
/// `batch.part("0")` or `batch.part(name)` is a loader's part of the step's batch.
///
///     Loaders val_dataloader() override { return {val_, 32}; }
///     Loaders val_dataloader() override { return {{clean_, 32}, {noisy_, 32}}; }
///     Loaders train_dataloader() override { return {Combine::min_size, {{clean_, 32}, {noisy_, 32}}}; }
class Loaders {
 public:
  Loaders() = default;
  // NOLINTBEGIN(google-explicit-constructor): `return spec;`
  /// A spec without a dataset and a stream is no loader.
  Loaders(DataLoaderSpec spec) : Loaders(std::vector<DataLoaderSpec>{std::move(spec)}) {}
  Loaders(std::shared_ptr<const Dataset> dataset, std::int64_t batch_size, bool shuffle = false,
          bool drop_last = false)
      : Loaders(DataLoaderSpec{std::move(dataset), batch_size, shuffle, drop_last}) {}
  Loaders(std::shared_ptr<const StreamDataset> stream, std::int64_t batch_size)
      : Loaders(DataLoaderSpec{.dataset = {}, .batch_size = batch_size, .stream = std::move(stream)}) {}
  Loaders(std::initializer_list<DataLoaderSpec> specs) : Loaders(std::vector<DataLoaderSpec>(specs)) {}
  Loaders(std::vector<DataLoaderSpec> specs) : specs_(std::move(specs)) {
    std::erase_if(specs_, [](const DataLoaderSpec& spec) { return !spec.dataset && !spec.stream; });
  }
  // NOLINTEND(google-explicit-constructor)
  Loaders(Combine mode, std::vector<DataLoaderSpec> specs) : Loaders(std::move(specs)) { mode_ = mode; }

  const std::vector<DataLoaderSpec>& specs() const { return specs_; }
  /// Absent: max_size_cycle in a training, sequential in an evaluation.
  std::optional<Combine> mode() const { return mode_; }

 private:
  std::vector<DataLoaderSpec> specs_;
  std::optional<Combine> mode_;
};

}  // namespace cxtrain
