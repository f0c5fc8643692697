#pragma once

#include <string>
#include <vector>

#include "cxtrain/precision/master_weights.h"
#include "cxtrain/strategy/trained_parameters.h"

namespace cxtrain {

/// Parameters that every rank, or the only rank, holds and updates as a whole.
class WholeParameters final : public TrainedParameters {
 public:
  /// `parameters`: of the placed model, all that may be trained at any time. The exchange must outlive this
  /// object.
  WholeParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                  GradientExchange& exchange);

  std::span<const Piece> pieces() const override { return pieces_; }
  GradientExchange& exchange() override { return exchange_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override { return masters_.gradients(); }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor&) override {}  // equal gradients overflow alike
  void publish() override;

 private:
  MasterWeights masters_;
  std::vector<Piece> pieces_;
  GradientExchange& exchange_;
};

}  // namespace cxtrain
