#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// The step that nodes take together after each has trained by itself: SGD with Nesterov's momentum on the
/// mean of their models (DiLoCo, Douillard et al. 2023). Its gradient is the way from the mean back to the
/// model of the last outer step. Ranks with the same pieces compute the same bits; no rank waits for another.
class OuterStep {
 public:
  struct Settings {
    double lr;        ///< 1 without momentum: the mean is the new model
    double momentum;  ///< share of the last step that is added
  };
  explicit OuterStep(const Settings& settings) : settings_(settings) {}

  bool has_start() const { return !start_.empty(); }
  /// Remembers the values of the pieces, which the next outer step starts from. The momentum becomes 0.
  void begin_at(std::span<const Piece> pieces);
  /// Makes the outer step. `pieces`: those of `begin_at`, with the mean as values. The next outer step starts
  /// from the result.
  void apply(std::span<const Piece> pieces);

  /// The start and the momentum, as pieces "outer_start.NAME" and "outer_momentum.NAME"; nothing before
  /// `begin_at`.
  std::vector<Piece> state(std::span<const Piece> pieces) const;
  /// Takes the state of these pieces from `saved`. Has no start if a training without outer steps has saved.
  /// Throws StateError.
  void load(std::span<const Piece> pieces, std::span<const Piece> saved);

 private:
  const Settings settings_;
  std::vector<at::Tensor> start_, momentum_;  ///< in the order and the shapes of the pieces; empty: no start
};

}  // namespace cxtrain
