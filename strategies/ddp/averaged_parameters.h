#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/strategy/trained_parameters.h"
#include "outer_step.h"

namespace cxtrain {

/// Parameters that each node trains by itself, and that become the mean over the nodes from time to time
/// (post-local SGD, Lin et al. 2020; torch's PeriodicModelAverager). With an outer step the mean that comes
/// after each period is a step of the nodes' common model.
class AveragedParameters final : public TrainedParameters {
 public:
  struct Schedule {
    std::int64_t start;   ///< steps before this one average gradients over all ranks
    std::int64_t period;  ///< steps from one mean to the next
  };
  struct Ranks {
    Communicator& all;
    Communicator& alike;  ///< ranks of all nodes that have the same pieces as this rank
  };
  /// `of_node`: the parameters as the ranks of a node train them. `buffers`: brought to all ranks with each
  /// mean; or null. `outer`: or nothing. All references outlive the object.
  AveragedParameters(std::unique_ptr<TrainedParameters> of_node, const Ranks& ranks, TensorSync* buffers,
                     const Schedule& schedule, const std::optional<OuterStep::Settings>& outer)
      : of_node_(std::move(of_node)), ranks_(ranks), buffers_(buffers), schedule_(schedule), outer_(outer) {}

  std::span<const Piece> pieces() const override { return of_node_->pieces(); }
  GradientExchange& exchange() override { return of_node_->exchange(); }
  void synchronize() override { of_node_->synchronize(); }
  std::span<const at::Tensor> gradients() const override { return of_node_->gradients(); }
  std::span<const at::Tensor> held_gradients() const override { return of_node_->held_gradients(); }
  /// Of this node.
  std::vector<at::Tensor> gradient_norms(double order) override { return of_node_->gradient_norms(order); }
  void agree_on_overflow(const at::Tensor& found) override;
  /// A training that has no start yet starts from the values before its first update.
  void begin_update() override {
    of_node_->begin_update();
    if (outer_ && !outer_->has_start()) outer_->begin_at(pieces());
  }
  void publish() override { of_node_->publish(); }
  void publish_step() override { of_node_->publish_step(); }
  void end_step(std::int64_t step) override;
  void unite() override {
    if (are_apart_) meet(/*ends_period=*/false);
  }
  void average(std::span<const at::Tensor> tensors) override;
  std::vector<Piece> state() const override {
    return outer_ ? outer_->state(pieces()) : std::vector<Piece>{};
  }
  void load(std::span<const Piece> saved) override {
    if (outer_) outer_->load(pieces(), saved);
  }

 private:
  /// Brings the pieces to the mean. `ends_period`: the outer step follows.
  void meet(bool ends_period);
  /// Averages tensors of one dtype and device as one message. `message`: memory for the values, which is used
  /// again if it suffices.
  void average_together(const std::vector<at::Tensor>& tensors, at::Tensor& message);

  std::unique_ptr<TrainedParameters> of_node_;
  Ranks ranks_;
  TensorSync* buffers_;
  const Schedule schedule_;
  std::optional<OuterStep> outer_;
  bool are_apart_ = false;  ///< nodes have updated the parameters since the last mean
};

}  // namespace cxtrain
