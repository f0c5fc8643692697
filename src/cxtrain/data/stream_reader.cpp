#include "cxtrain/data/stream_reader.h"

#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/data/dataset.h"
#include "cxtrain/data/sharded_sampler.h"

namespace cxtrain {

StreamReader::StreamReader(std::shared_ptr<const StreamDataset> dataset, std::int64_t batch_size,
                           bool drop_last)
    : dataset_(std::move(dataset)), batch_size_(batch_size), drop_last_(drop_last) {
  require_samples_of_batch(batch_size);
}

void StreamReader::start_epoch(const StreamContext& context, std::int64_t first_batch) {
  samples_ = 0;
  stream_ = dataset_->open(context);
  if (!stream_) throw DataError("StreamDataset::open has returned no stream");
  const std::unique_ptr<StateDict> from = std::exchange(loaded_, nullptr);
  if (first_batch > 0) {
    if (!from)
      throw StateError("a stream goes on at batch " + std::to_string(first_batch) +
                       ", and no position of the stream was loaded");
    go_to(*from);
  }
  positions_.clear();
  note_position(first_batch);
}

void StreamReader::go_to(const StateDict& state) {
  const std::int64_t samples = state.integer("samples");
  if (state.boolean("ended")) {
    stream_.reset();
    samples_ = samples;
    return;
  }
  if (state.has_section("stream")) {
    stream_->load(state.section("stream"));
    samples_ = samples;
    return;
  }
  Batch sample;
  while (samples_ < samples && stream_->next(sample)) ++samples_;
  if (samples_ < samples)
    throw StateError("the saved state is behind sample " + std::to_string(samples) +
                     " of a stream, and the stream has ended after " + std::to_string(samples_) +
                     "; use the same data");
}

void StreamReader::note_position(std::int64_t k) {
  StateDict position;
  position.set("samples", samples_);
  position.set("ended", stream_ == nullptr);
  StateDict own;
  if (stream_) stream_->save(own);
  if (!own.values().empty() || !own.pieces().empty() || !own.sections().empty())
    position.make_section("stream") = own.clone();
  const std::lock_guard lock(mutex_);
  positions_.insert_or_assign(k, std::move(position));
}

void StreamReader::collate(std::int64_t k, bool pin_memory, Batch& batch) {
  std::vector<Batch> samples;
  std::vector<std::int64_t> indices;  // in the shard
  while (stream_ && static_cast<std::int64_t>(samples.size()) < batch_size_) {
    Batch sample;
    if (!stream_->next(sample)) {
      stream_.reset();
      break;
    }
    samples.push_back(std::move(sample));
    indices.push_back(samples_++);
  }
  if (drop_last_ && static_cast<std::int64_t>(samples.size()) < batch_size_) samples.clear();
  batch = {};
  stack_samples(samples, indices, {.pin_memory = pin_memory}, batch);
  batch.size = static_cast<std::int64_t>(samples.size());
  if (batch.size > 0) batch.indices = std::move(indices);
  note_position(k + 1);
}

StateDict StreamReader::position(std::int64_t k) const {
  if (loaded_) return loaded_->clone();
  const std::lock_guard lock(mutex_);
  const auto found = positions_.find(k);
  return found == positions_.end() ? StateDict() : found->second.clone();
}

}  // namespace cxtrain
