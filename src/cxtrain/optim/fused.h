#pragma once

#include <variant>
#include <vector>

#include "cxtrain/optim/optimizer.h"

namespace cxtrain {

/// SGD, Adam and AdamW on ATen's fused kernels: one call for all pieces of a group, on CPU and CUDA, with no
/// host synchronisation.
class FusedOptimizer final : public Optimizer {
 public:
  using Rule = std::variant<Sgd, Adam, AdamW>;

  FusedOptimizer(Rule rule, const std::vector<ResolvedGroup>& groups, std::span<const Piece> pieces);

  void step(const StepInputs& inputs) override;
  void set_lr_factor(double factor) override { lr_factor_ = factor; }
  std::vector<double> learning_rates() const override;
  std::vector<Piece> state() const override;
  void load(std::span<const Piece> state) override;

 private:
  /// Pieces of one group, dtype and device, with their state in the same order.
  struct Bundle {
    double lr, weight_decay;
    bool frozen = false;  ///< when training began; state is then made with the first gradient
    std::vector<std::size_t> piece_indices;  ///< in the list of all pieces, and of their gradients
    std::vector<Piece> pieces;
    std::vector<at::Tensor> first, second, largest;  ///< momentum or exp_avg; exp_avg_sq; max_exp_avg_sq
    at::Tensor steps;                                ///< float32 [parameters]: updates made to each
    std::vector<at::Tensor> step_of;                 ///< its elements
    std::vector<char> started;  ///< momentum buffers that hold a gradient (SGD with dampening)
  };
  /// What of a bundle takes part in a step; all of it, nearly always.
  struct Selection {
    std::vector<std::size_t> indices;  ///< within the bundle
    std::vector<at::Tensor> parameters, gradients, first, second, largest, step_of;
  };

  Bundle& bundle_of(const Piece& piece, const ResolvedGroup& group, std::size_t first_of_group);
  void make_state(Bundle& bundle);
  void select(const Bundle& bundle, std::span<const at::Tensor> gradients);
  void update(const Sgd& rule, Bundle& bundle, double lr, const std::optional<at::Tensor>& found_inf);
  void update(const Adam& rule, Bundle& bundle, double lr, const std::optional<at::Tensor>& found_inf);
  void update(const AdamW& rule, Bundle& bundle, double lr, const std::optional<at::Tensor>& found_inf);

  Rule rule_;
  std::vector<Bundle> bundles_;
  std::vector<double> base_rates_;
  double lr_factor_ = 1;
  Selection selection_;  // reused: a step allocates no lists
};

}  // namespace cxtrain
