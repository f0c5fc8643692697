#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cxtrain/precision/master_weights.h"
#include "cxtrain/strategy/trained_parameters.h"

namespace cxtrain {

/// Parameters that every rank, or the only rank, holds and updates as a whole.
class WholeParameters final : public TrainedParameters {
 public:
  struct Steps {
    std::function<void()> complete_gradients = [] {};  ///< makes each parameter's gradient the average
    std::function<void()> bring_buffers = [] {};       ///< gives all ranks the model's buffers
  };

  /// `parameters`: `trainable_parameters` of the placed model. Everything that `steps` refers to must outlive
  /// this object.
  WholeParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision, Steps steps);

  std::span<const Piece> pieces() const override { return pieces_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return masters_.gradients(); }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor&) override {}  // equal gradients overflow alike
  void publish() override;

 private:
  MasterWeights masters_;
  std::vector<Piece> pieces_;
  Steps steps_;
};

}  // namespace cxtrain
