#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

/// Adam or AdamW by one call of ATen's fused kernel for each group of parameters, as a hand-written loop has
/// it.
class FloorAdam {
 public:
  struct Group {
    std::vector<at::Tensor> parameters;
    double weight_decay = 0;
  };
  /// `decoupled`: AdamW.
  FloorAdam(std::vector<Group> groups, double lr, double beta2, bool decoupled);

  void zero_grad();
  void step();
  const std::vector<Group>& groups() const { return groups_; }

 private:
  struct State {
    std::vector<at::Tensor> gradients, first, second, step_of;
    at::Tensor steps;
  };

  std::vector<Group> groups_;
  std::vector<State> states_;
  double lr_, beta2_;
  bool decoupled_;
};
