#include "cxtrain/strategy/training_bytes.h"

#include <algorithm>
#include <variant>

namespace cxtrain {
namespace {

/// Numbers in float32 that the optimizer keeps for each parameter.
struct StateNumbers {
  double operator()(const Sgd& sgd) const { return sgd.momentum == 0 ? 0 : 1; }
  double operator()(const Adam& adam) const { return adam.amsgrad ? 3 : 2; }
  double operator()(const AdamW& adam) const { return adam.amsgrad ? 3 : 2; }
  double operator()(const LibTorchOptimizer&) const { return 2; }
};

}  // namespace

TrainingBytes& TrainingBytes::operator+=(const TrainingBytes& other) {
  gradients += other.gradients;
  state += other.state;
  return *this;
}

TrainingBytes TrainingBytes::divided(int gradients_among, int state_among) const {
  return {gradients / gradients_among, state / state_among};
}

TrainingBytes training_bytes(const std::vector<NamedTensor>& parameters, const OptimizerConfig& optimizer,
                             const PrecisionPolicy& precision) {
  const double numbers = std::visit(StateNumbers(), optimizer) + (precision.master_weights ? 1 : 0);
  TrainingBytes bytes;
  for (const NamedTensor& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) continue;
    const auto numel = static_cast<double>(parameter.tensor.numel());
    const auto element = static_cast<double>(parameter.tensor.element_size());
    bytes.gradients += numel * element;
    bytes.state += numel * numbers * std::max(element, static_cast<double>(sizeof(float)));
  }
  return bytes;
}

}  // namespace cxtrain
