#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/reduce/reducer.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/gradient_exchange.h"

namespace cxtrain {

/// Gradients that a reducer averages over all ranks. A hook may freeze parameters or unfreeze them; the next
/// step then has a reducer of its own.
class ReducedGradients final : public GradientExchange, private Stateful {
 public:
  /// `buffers`: brought to the ranks after each step; or null. All references outlive it. Collective.
  ReducedGradients(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
                   const ReducerOptions& options, TensorSync* buffers);

  void zero_gradients() override {
    if (reducer_->outdated()) make_reducer();
    reducer_->zero_gradients();
  }
  /// Throws TrainingError if a hook has unfrozen a parameter between two micro-batches of a step.
  void begin_backward(bool completes_step) override;
  void end_backward() override { reducer_->end_backward(); }
  void complete() override;
  bool carry(std::uint64_t flags) override { return reducer_->carry(flags); }
  std::uint64_t carried() const override { return reducer_->carried(); }
  std::optional<Rehearsal> rehearse(RehearsedMessages messages) override {
    return reducer_->rehearse(messages);
  }
  std::vector<ConnectionUse> connections() const override { return communicator_.connections(); }
  void bring_buffers() override {
    if (buffers_ != nullptr) buffers_->broadcast();
  }
  std::string order() const override;
  void set_order(const std::string& lines) override;
  /// Which gradients are rounded, if a step has shown that (`ReducerOptions::round_exposed_only`).
  Stateful* memory() override { return options_.round_exposed_only ? this : nullptr; }

 private:
  std::string state_key() const override { return "rounding"; }
  void save(StateDict& state) const override;
  void load(const StateDict& state) override;

  /// For the parameters that require a gradient now. Collective.
  void make_reducer();
  bool saved_order_fits() const;

  std::vector<NamedTensor> parameters_;
  Communicator& communicator_;
  World& world_;
  ReducerOptions options_;
  TensorSync* const buffers_;
  std::unique_ptr<Reducer> reducer_;
  // Loaded from a saved training, and kept until the first step is complete: before that step hooks may
  // freeze and unfreeze parameters.
  std::vector<std::string> saved_order_;
  std::optional<std::int64_t> saved_exact_parameters_;
};

}  // namespace cxtrain
