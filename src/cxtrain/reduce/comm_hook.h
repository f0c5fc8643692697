#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Facts about a training, for its comm hooks.
struct CommHookContext {
  std::uint64_t seed = 0;  ///< equal on all ranks
};

/// A way to send fewer bytes of gradients, after `register_comm_hook` of torch's DDP: `--strategy.comm_hook
/// NAME`. A hook rounds (`RoundingHook`), or averages in its own way (`AveragingHook`). An argument ARG of
/// the hook is `--strategy.NAME_ARG`. Each rank makes a hook for each group of optimizers whose gradients
/// travel together.
class CommHook {
 public:
  static constexpr std::string_view kKind = "comm_hook";
  using Interface = CommHook;
  using Traits = CommHookTraits;
  using Context = CommHookContext;

  virtual ~CommHook() = default;
};

/// A hook that rounds each gradient on its way. The strategy sends, sums and rounds
/// (`ReducerOptions::wire_dtype`).
class RoundingHook : public CommHook {
 public:
  /// The dtype that wider gradients are rounded to: `at::kBFloat16` or `at::kHalf`.
  virtual at::ScalarType dtype() const = 0;
  /// Whether only gradients that would arrive after backward otherwise are rounded.
  virtual bool only_late() const { return false; }
};

/// A hook that replaces the average of the gradients, after the backward that completes a step.
///
/// All ranks call the same methods in the same order. After `average` the gradients need the same bits on all
/// ranks, since each rank updates its own parameters.
class AveragingHook : public CommHook, public Stateful {
 public:
  /// The steps of a training whose gradients are averaged exactly, before the first call of `average`.
  virtual std::int64_t start() const { return 0; }

  /// Called once, before the other methods below. `parameters`: all of the training, frozen ones included; a
  /// parameter may be frozen or unfrozen between two steps. `communicator`: of all ranks; outlives the hook.
  /// Collective.
  virtual void prepare(const std::vector<NamedTensor>& parameters, Communicator& communicator) = 0;

  /// Turns the gradient of each parameter that requires one into an average over all ranks, in
  /// `mutable_grad()`. A gradient that is undefined counts as zero, and is defined afterwards. In a step that
  /// the model skips, no rank has a gradient. Collective.
  virtual void average() = 0;

  // Checkpoints have what the hook remembers from step to step. A section `kMeanOfRanks` has tensors that
  // differ between the ranks; a training on another number of ranks begins with the mean of these tensors.
  std::string state_key() const override { return "comm_hook"; }
  void save(StateDict& /*state*/) const override {}
  void load(const StateDict& /*state*/) override {}
  bool differs_between_ranks() const override { return true; }
};

}  // namespace cxtrain
