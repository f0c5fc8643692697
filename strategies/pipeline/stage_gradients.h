#pragma once

#include <memory>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/rank_messages.h"
#include "cxtrain/strategy/gradient_exchange.h"
#include "stage_model.h"

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

  void zero_gradients() override;
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

}  // namespace cxtrain
