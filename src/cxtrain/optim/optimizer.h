#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cxtrain/optim/setup.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Updates parameters, or pieces of them, from their gradients. One per rank; no communication. A piece
/// without a gradient is left as it is, state included; one that is frozen at first costs nothing until it
/// gets a gradient.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  struct StepInputs {
    /// Of the pieces that it was made for, in their order; undefined where there is none.
    std::span<const at::Tensor> gradients;
    const at::Tensor* found_inf = nullptr;  ///< float32, one element; where it is 1 the step changes nothing
    /// Only where `needs_closure()`: computes the loss and new gradients, which are then in `gradients`.
    std::function<at::Tensor()> closure = {};
  };
  virtual void step(const StepInputs& inputs) = 0;
  virtual bool needs_closure() const { return false; }

  /// Learning rates are base rates times this factor, which the schedule gives.
  virtual void set_lr_factor(double factor) = 0;
  /// One current rate per parameter group, the same on all ranks.
  virtual std::vector<double> learning_rates() const = 0;

  /// All that it remembers of its steps, without which another one would go on differently: pieces with the
  /// ranges of the optimizer's own, named after them ("exp_avg.layers.0.weight"); to be read before the next
  /// step. Throws TrainingError where that cannot be had (an optimizer of the user's without `save`).
  virtual std::vector<Piece> state() const = 0;
  /// Takes over the state of an optimizer with the same settings: pieces of whatever ranges that together
  /// cover this one's. Throws StateError naming what is missing, or belongs to another kind of optimizer.
  virtual void load(std::span<const Piece> state) = 0;
};

/// Builds the optimizer that the setup describes, for `pieces` of the model's `parameters` (trainable ones,
/// all of them, on every rank alike). Parameters in none of the setup's groups form a last one. Throws
/// ConfigError when a group names a tensor that is not a parameter, two groups share one, or none requires a
/// gradient. SGD, Adam and AdamW, which treat every element by itself, take pieces of any kind; LibTorch's
/// own optimizers whole parameters.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces);
/// The same for all parameters as wholes.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSetup& setup,
                                          const std::vector<NamedTensor>& parameters);

/// A group as an optimizer works on it: hyperparameters settled, every parameter in exactly one.
struct ResolvedGroup {
  /// Indices of the optimizer's pieces; none where other ranks have the group's parameters.
  std::vector<std::size_t> pieces;
  double lr;
  double weight_decay;
};

/// Groups, parameters and pieces are those of `make_optimizer`. `lr` and `weight_decay` are the defaults of
/// groups that name none.
std::vector<ResolvedGroup> resolve_groups(const std::vector<ParameterGroup>& groups,
                                          const std::vector<NamedTensor>& parameters,
                                          std::span<const Piece> pieces, double lr, double weight_decay);

}  // namespace cxtrain
