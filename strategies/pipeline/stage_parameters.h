#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/rank_messages.h"
#include "cxtrain/strategy/gradient_exchange.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "stage_model.h"

/// The parameters that a stage of a pipeline trains, and their gradients.
namespace cxtrain {

/// The ranks that a rank of a pipeline exchanges gradients with.
struct StagePeers {
  const PipelineGrid& grid;
  Communicator& stage;     ///< the ranks with the same stage
  RankMessages* messages;  ///< between the stages of a column; null: there is one stage
  int tag;                 ///< of messages with gradients, and the numbers behind it
};

/// The gradients of a stage's parameters: summed over the stages that share a parameter, and averaged over
/// the ranks of the stage. Gradients travel after the last backward.
class StageGradients final : public GradientExchange {
 public:
  /// `parameters`: those of this stage. All references outlive the object. Collective over the stage.
  StageGradients(std::vector<NamedTensor> parameters, StageModel& model, const StagePeers& peers);

  /// Autograd then hands over its tensors, instead of adding to zeros.
  void zero_gradients() override {
    for (NamedTensor& parameter : parameters_) parameter.tensor.mutable_grad().reset();
    complete_ = false;
  }
  void complete() override;
  void bring_buffers() override { model_.bring_buffers(); }

 private:
  void add_tied();
  void average();

  std::vector<NamedTensor> parameters_;
  StageModel& model_;
  StagePeers peers_;
  /// The parameters of one dtype, and memory for the average of their gradients.
  struct Arena {
    std::vector<std::size_t> parameters;
    at::Tensor memory;
  };
  std::vector<Arena> arenas_;
  bool complete_ = false;
};

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
