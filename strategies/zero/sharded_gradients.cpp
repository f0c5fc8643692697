#include "sharded_gradients.h"

#include <utility>

#include "cxtrain/reduce/divided_rows.h"

namespace cxtrain {
namespace {

/// The parameters that are in no row.
std::vector<NamedTensor> outside(const std::vector<DividedRow>& rows,
                                 const std::vector<NamedTensor>& parameters) {
  std::vector<bool> inside(parameters.size());
  for (const DividedRow& row : rows) {
    for (const std::size_t parameter : row.parameters) inside[parameter] = true;
  }
  std::vector<NamedTensor> found;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!inside[i]) found.push_back(parameters[i]);
  }
  return found;
}

}  // namespace

ShardedGradients::ShardedGradients(const std::vector<NamedTensor>& parameters,
                                   const ShardedGradientsInputs& inputs)
    : walk_(inputs.walk),
      shards_(parameters, inputs.rows, inputs.group.rank(), inputs.all, inputs.world, inputs.options),
      whole_(outside(inputs.rows, parameters), inputs.all, inputs.world,
             {.find_unused_parameters = inputs.options.find_unused_parameters}, inputs.buffers) {}

void ShardedGradients::zero_gradients() {
  shards_.zero_gradients();
  whole_.zero_gradients();
}

void ShardedGradients::begin_backward(bool completes_step) {
  if (walk_ != nullptr) walk_->end_forward();
  whole_.begin_backward(completes_step);
  shards_.begin_backward(completes_step);
  if (walk_ != nullptr) walk_->begin_backward(shards_);
}

void ShardedGradients::end_backward() {
  if (walk_ != nullptr) walk_->end_backward();
  shards_.end_backward();
  whole_.end_backward();
}

/// Not with gathered blocks, which also travel in forward and backward.
std::optional<Rehearsal> ShardedGradients::rehearse(RehearsedMessages messages) {
  if (walk_ != nullptr || messages != RehearsedMessages::of_steps) return std::nullopt;
  return shards_.rehearse();
}

void ShardedGradients::complete() {
  shards_.finish();
  whole_.complete();
}

}  // namespace cxtrain
