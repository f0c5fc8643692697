#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/reduce/named_tensor.h"
#include "cxtrain/reduce/shard_plan.h"

namespace cxtrain {

/// Updates parameters from their gradients. One per rank; no communication. A parameter without a gradient is
/// left as it is, state included; one that is frozen at first costs nothing until it gets a gradient.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  struct StepInputs {
    const at::Tensor* found_inf = nullptr;  ///< float32, one element; where it is 1 the step changes nothing
    std::function<at::Tensor()> closure =
        {};  ///< computes loss and gradients anew; only where `needs_closure()`
  };
  virtual void step(const StepInputs& inputs) = 0;
  virtual bool needs_closure() const { return false; }

  /// Learning rates are base rates times this factor, which the schedule gives.
  virtual void set_lr_factor(double factor) = 0;
  /// One current rate per parameter group.
  virtual std::vector<double> learning_rates() const = 0;

  /// Everything it remembers, by parameter name ("exp_avg.layers.0.weight"), of the shards that it updates:
  /// in the parameter's shape, or flat where it has a part of one. Writing to the tensors restores it.
  virtual std::vector<NamedTensor> state() const = 0;
};

/// Builds the optimizer that the setup describes, over `parameters`. Those in none of the setup's groups form
/// a last one. Throws ConfigError when a group names a tensor that is not a parameter, two groups share one,
/// or none requires a gradient.
///
/// `shards`, where there are any, has for each parameter the elements that are asked of it; someone else
/// updates the others. SGD, Adam and AdamW, which treat every element by itself, do and remember no more than
/// that. LibTorch's own optimizers update whole parameters all the same.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const ElementRange> shards = {});

}  // namespace cxtrain
