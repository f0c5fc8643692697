#include "sharded_gradients.h"

#include <utility>

#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/strategy/local_step.h"

namespace cxtrain {
namespace {

/// The rows of all targets. No row has parameters of two optimizers.
std::vector<DividedRow> rows_of(std::span<const OptimizerTarget> targets, int ranks, std::int64_t row_bytes) {
  std::vector<DividedRow> rows;
  std::size_t first = 0;
  for (const OptimizerTarget& target : targets) {
    for (DividedRow& row : divided_rows(target.parameters, ranks, row_bytes)) {
      for (std::size_t& parameter : row.parameters) parameter += first;
      rows.push_back(std::move(row));
    }
    first += target.parameters.size();
  }
  return rows;
}

std::vector<NamedTensor> indivisible(std::vector<NamedTensor> parameters) {
  std::erase_if(parameters, [](const NamedTensor& parameter) { return can_be_divided(parameter.tensor); });
  return parameters;
}

}  // namespace

ShardedGradients::ShardedGradients(std::span<const OptimizerTarget> targets,
                                   const ShardedGradientsInputs& inputs)
    : shards_(parameters_of(targets), rows_of(targets, inputs.group.size(), inputs.row_bytes),
              inputs.group.rank(), inputs.all, inputs.world, inputs.options),
      whole_(indivisible(parameters_of(targets)), inputs.all, inputs.world,
             {.find_unused_parameters = inputs.options.find_unused_parameters}, inputs.buffers) {}

void ShardedGradients::zero_gradients() {
  shards_.zero_gradients();
  whole_.zero_gradients();
}

void ShardedGradients::begin_backward(bool completes_step) {
  whole_.begin_backward(completes_step);
  shards_.begin_backward(completes_step);
}

void ShardedGradients::end_backward() {
  shards_.end_backward();
  whole_.end_backward();
}

void ShardedGradients::complete() {
  shards_.finish();
  whole_.complete();
}

}  // namespace cxtrain
