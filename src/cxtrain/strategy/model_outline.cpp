#include "cxtrain/strategy/model_outline.h"

#include <algorithm>
#include <set>
#include <string>
#include <variant>

#include "cxtrain/strategy/local_step.h"

namespace cxtrain {
namespace {

/// Numbers in float32 that the optimizer keeps for each parameter.
struct StateNumbers {
  std::int64_t operator()(const Sgd& sgd) const { return sgd.momentum == 0 ? 0 : 1; }
  std::int64_t operator()(const Adam& adam) const { return adam.amsgrad ? 3 : 2; }
  std::int64_t operator()(const AdamW& adam) const { return adam.amsgrad ? 3 : 2; }
  std::int64_t operator()(const Rmsprop& rmsprop) const { return rmsprop.momentum == 0 ? 1 : 2; }
  std::int64_t operator()(const Adagrad&) const { return 1; }
  /// Two lists of the last steps, the direction, and the gradient before and now.
  std::int64_t operator()(const Lbfgs& lbfgs) const { return 2 * lbfgs.history_size + 3; }
  std::int64_t operator()(const LibTorchOptimizer&) const { return 2; }
};

}  // namespace

RankMemory memory_of_tensors(std::span<const NamedTensor> tensors) {
  RankMemory memory;
  for (const NamedTensor& named : tensors)
    memory.parameters += static_cast<std::int64_t>(named.tensor.nbytes());
  return memory;
}

RankMemory memory_of_untrained(const ModelOutline& model) {
  RankMemory memory = memory_of_tensors(model.module.all_buffers());
  const std::set<std::string> untrained = untrained_parameters(model.module, model.targets);
  for (const NamedTensor& named : model.module.all_parameters()) {
    if (!untrained.contains(named.name)) continue;
    memory += memory_of_tensors({&named, 1});
    if (named.tensor.requires_grad()) memory.gradients += static_cast<std::int64_t>(named.tensor.nbytes());
  }
  return memory;
}

RankMemory memory_of_training(std::span<const NamedTensor> parameters, const OptimizerConfig& optimizer,
                              const PrecisionPolicy& precision, int further_numbers) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t of_all = std::visit(StateNumbers(), optimizer) + further_numbers;
  RankMemory memory;
  for (const NamedTensor& parameter : parameters) {
    const auto element = static_cast<std::int64_t>(parameter.tensor.element_size());
    const bool has_master = precision.has_master(parameter.tensor.scalar_type());
    std::int64_t numbers = has_master ? 1 : 0;
    if (parameter.tensor.requires_grad()) {
      memory.gradients += parameter.tensor.numel() * element;
      numbers += of_all + (has_master ? 1 : 0);
    }
    memory.optimizer += parameter.tensor.numel() * numbers * std::max(element, kFloat);
  }
  return memory;
}

std::int64_t gradients_in_passing(std::span<const NamedTensor> parameters) {
  std::int64_t largest = 0, second = 0;
  for (const NamedTensor& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const auto bytes = static_cast<std::int64_t>(parameter.tensor.nbytes());
    second = std::max(second, std::min(bytes, largest));
    largest = std::max(bytes, largest);
  }
  return largest + second;
}

RankMemory memory_of_whole(const ModelOutline& model) {
  RankMemory memory = memory_of_tensors(all_tensors(model.module));
  for (const OptimizerTarget& target : model.targets)
    memory += memory_of_training(target.parameters, target.optimizer, model.precision);
  return memory;
}

}  // namespace cxtrain
