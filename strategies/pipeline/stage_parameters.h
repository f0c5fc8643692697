#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "stage_model.h"

namespace cxtrain {

/// What one optimizer trains on a stage: the stage's parameters, which `own` holds, and the agreement with
/// the other stages on norms and overflows.
class StageParameters final : public TrainedParameters {
 public:
  /// `all`: the optimizer's parameters on all stages. `own`: those of this stage; null: the stage has none.
  /// All references outlive the object.
  StageParameters(const std::vector<NamedTensor>& all, std::unique_ptr<TrainedParameters> own,
                  const StageModel& model, Communicator& column, GradientExchange& exchange);

  std::span<const Piece> pieces() const override;
  GradientExchange& exchange() override { return exchange_; }
  void synchronize() override;
  std::span<const at::Tensor> gradients() const override;
  std::span<const at::Tensor> held_gradients() const override;
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  void begin_update() override;
  void publish() override;

 private:
  struct Parameter {
    std::string name;
    at::ScalarType dtype;
    bool is_own;
    bool counts;  ///< this stage is the first that has it
  };
  std::vector<Parameter> parameters_;
  at::Device device_ = at::kCPU;
  std::unique_ptr<TrainedParameters> own_;
  Communicator& column_;
  GradientExchange& exchange_;
};

}  // namespace cxtrain
