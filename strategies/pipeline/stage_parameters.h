#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "stage_model.h"

namespace cxtrain {

/// The parameters that one optimizer trains on a stage. The stages agree on norms and overflows; everything
/// else is left to `own`, the parameters of this stage alone.
class StageParameters final : public TrainedParameters {
 public:
  /// `all`: the optimizer's parameters on all stages. `own`: those of this stage. `in_step`: whether a step
  /// is under way. All references outlive the object.
  StageParameters(const std::vector<NamedTensor>& all, std::unique_ptr<TrainedParameters> own,
                  const StageModel& model, Communicator& column, const bool& in_step);

  std::span<const Piece> pieces() const override { return own_->pieces(); }
  GradientExchange& exchange() override { return own_->exchange(); }
  void synchronize() override { own_->synchronize(); }
  std::span<const at::Tensor> gradients() const override { return own_->gradients(); }
  std::span<const at::Tensor> held_gradients() const override { return own_->held_gradients(); }
  std::vector<at::Tensor> gradient_norms(double order) override;
  void agree_on_overflow(const at::Tensor& found) override;
  /// Throws TrainingError in the middle of a step.
  void begin_update() override;
  void publish() override { own_->publish(); }
  void publish_step() override { own_->publish_step(); }

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
  const bool& in_step_;
};

}  // namespace cxtrain
