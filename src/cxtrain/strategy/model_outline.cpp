#include "cxtrain/strategy/model_outline.h"

#include <algorithm>
#include <variant>

#include "cxtrain/strategy/local_step.h"

namespace cxtrain {
namespace {

/// Numbers in float32 that the optimizer keeps for each parameter.
struct StateNumbers {
  std::int64_t operator()(const Sgd& sgd) const { return sgd.momentum == 0 ? 0 : 1; }
  std::int64_t operator()(const Adam& adam) const { return adam.amsgrad ? 3 : 2; }
  std::int64_t operator()(const AdamW& adam) const { return adam.amsgrad ? 3 : 2; }
  std::int64_t operator()(const LibTorchOptimizer&) const { return 2; }
};

}  // namespace

RankMemory memory_of_tensors(std::span<const NamedTensor> tensors) {
  RankMemory memory;
  for (const NamedTensor& named : tensors)
    memory.parameters += static_cast<std::int64_t>(named.tensor.nbytes());
  return memory;
}

RankMemory memory_of_training(std::span<const NamedTensor> parameters, const OptimizerConfig& optimizer,
                              const PrecisionPolicy& precision, int further_numbers) {
  const std::int64_t numbers =
      std::visit(StateNumbers(), optimizer) + (precision.master_weights ? 1 : 0) + further_numbers;
  RankMemory memory;
  for (const NamedTensor& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const auto element = static_cast<std::int64_t>(parameter.tensor.element_size());
    memory.gradients += parameter.tensor.numel() * element;
    memory.optimizer +=
        parameter.tensor.numel() * numbers * std::max(element, static_cast<std::int64_t>(sizeof(float)));
  }
  return memory;
}

RankMemory memory_of_whole(const ModelOutline& model) {
  RankMemory memory = memory_of_tensors(all_tensors(model.module));
  for (const OptimizerTarget& target : model.targets)
    memory += memory_of_training(target.parameters, target.optimizer, model.precision);
  return memory;
}

}  // namespace cxtrain
