#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/config/values.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// While it lives, the parameters of all other optimizers require no gradient.
class Toggle {
 public:
  /// `others`: parameters that require a gradient.
  explicit Toggle(std::vector<at::Tensor> others) : others_(std::move(others)) { set(false); }
  ~Toggle() { set(true); }
  Toggle(Toggle&& other) noexcept : others_(std::exchange(other.others_, {})) {}
  Toggle& operator=(Toggle&&) = delete;

 private:
  void set(bool requires_gradient) {
    for (const at::Tensor& parameter : others_) parameter.set_requires_grad(requires_gradient);
  }
  std::vector<at::Tensor> others_;
};

/// The learning rate of one parameter group.
struct LearningRate {
  std::string optimizer;  ///< "Adam", or "Adam/pg1" if there are several groups
  double value = 0;
};

/// An optimizer of the running fit, in the steps and hooks of a module: Lightning's LightningOptimizer.
///
/// With manual optimization (`Module::automatic_optimization` false), every rank calls the same methods in
/// the same order, except a rank that has no sample of an uneven last batch: that rank takes part by itself.
class OptimizerRef {
 public:
  virtual ~OptimizerRef() = default;

  /// Returns the name from `configure_optimizers`; the optimizer's kind ("Adam") if the model names none.
  virtual const std::string& name() const = 0;

  /// In manual optimization: one whole step. Toggles the optimizer, calls `loss`, which computes the loss
  /// with the forward pass, runs backward, averages the gradients over the ranks, clips, steps, and moves the
  /// schedule. Gradients travel during backward. With `accumulate_grad_batches` k the gradients of k batches
  /// add up, and every k-th call steps; `minimize` is then called once per batch. Collective. Throws
  /// TrainingError if the loss is not one number with a gradient.
  virtual void minimize(const std::function<at::Tensor()>& loss) = 0;

  /// In manual optimization: drops the gradients of the optimizer's parameters. Collective. Throws
  /// TrainingError if `accumulate_grad_batches` is not 1.
  virtual void zero_grad() = 0;
  /// Averages the gradients over the ranks unless they are averages already, removes the loss scale, calls
  /// `on_before_optimizer_step` and `configure_gradient_clipping`, and updates the parameters. In automatic
  /// optimization only `Module::optimizer_step` may call it, once. Collective. In manual optimization:
  /// throws TrainingError if `accumulate_grad_batches` is not 1, or if there are several ranks and no
  /// `manual_backward` was called since the last step or `zero_grad`.
  virtual void step() = 0;
  /// Returns an object; while the object lives, parameters of other optimizers require no gradient.
  [[nodiscard]] virtual Toggle toggle() = 0;

  /// Current learning rate of the first parameter group.
  double lr() const { return learning_rates().front().value; }
  /// One entry for each parameter group.
  virtual std::vector<LearningRate> learning_rates() const = 0;
  /// Sets this rate, and scales the rates of the other groups alike. The rate holds until the schedule moves.
  virtual void set_lr(double lr) = 0;

  /// The gradients in this rank's memory, averaged over the ranks and without loss scale; undefined for a
  /// parameter without a gradient. Collective if the gradients are not complete yet.
  virtual std::span<const at::Tensor> gradients() = 0;
  /// Clips the gradients: their values, or their norm over all parameters of the optimizer. Collective.
  virtual void clip(double limit, GradientClipAlgorithm algorithm = GradientClipAlgorithm::norm) = 0;
};

/// The optimizers of a run, as modules and hooks see them.
class OptimizerList {
 public:
  /// In the order of `configure_optimizers`.
  virtual std::span<OptimizerRef* const> all() const = 0;
  /// Runs backward of a loss in manual optimization, with the weight of this rank's samples and the loss
  /// scale. Throws TrainingError if the loss is not one number with a gradient.
  virtual void backward(const at::Tensor& loss) = 0;

  /// The parts of the trained parameters, or of their master weights, that this rank updates. All ranks'
  /// pieces are all of them.
  virtual const std::vector<Piece>& pieces() const = 0;
  /// The same parts of the model itself, where the model has their values in an equal dtype
  /// (`Piece::of_model`); else parts of master weights.
  virtual std::vector<Piece> pieces_in_model() const = 0;
  /// Code that changes pieces, alike on all ranks, calls `begin_update` before and `publish` after the
  /// changes (`TrainedParameters`). Collective.
  virtual void begin_update() = 0;
  virtual void publish() = 0;

 protected:
  ~OptimizerList() = default;
};

}  // namespace cxtrain
