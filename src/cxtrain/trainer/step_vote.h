#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/base/stop_signals.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/strategy/gradient_exchange.h"
#include "cxtrain/strategy/step.h"

namespace cxtrain {

class World;

/// A rank's vote at the end of a step. Of all ranks: for each field, whether at least one rank voted for it.
struct StepVote {
  // Requests.
  bool stop = false, checkpoint = false, save = false, requeue = false, validation = false;
  // Signals that have come (base/stop_signals.h).
  bool sigint = false, sigterm = false, requeue_signal = false;
  bool writing = false;  ///< the rank still writes its part of a checkpoint
  // What the ranks put into the step.
  bool loss = false, skipped = false;
  bool streams = false;  ///< the rank reads a stream that has batches for further steps

  /// Whether the run ends, once its state is saved where that is possible.
  bool ends_run() const { return requeue || sigint || sigterm || requeue_signal; }
  bool wants_checkpoint() const { return checkpoint || save || ends_run(); }
  StepResult result() const { return {loss, skipped}; }

  /// A bit for each field, so that one reduction combines the votes of all ranks.
  std::uint64_t to_bits() const;
  static StepVote from_bits(std::uint64_t bits);
};

/// For each field, whether it is set in one of the two.
StepVote operator|(const StepVote& a, const StepVote& b);

/// The votes of all ranks. Every rank has one. Its methods are collective, except `begin`, which does not
/// wait for other ranks, and are called by the thread of the loop.
class StepVoting {
 public:
  /// All references outlive it. `votes_within_step`: the vote that ends a step is the one that began before
  /// backward. Then no rank waits for others after the step, and a request of a single rank takes effect one
  /// step later.
  StepVoting(World& world, const Requests& requests, bool votes_within_step)
      : world_(world), requests_(requests), votes_within_step_(votes_within_step) {}

  /// Votes now. `writing`: this rank still writes its part of a checkpoint.
  StepVote vote(bool writing = false);
  /// Begins a vote within a step: what each rank put into the step, and its requests so far. If it is the
  /// only vote of the step, it travels with the gradients where their exchange carries flags. `gradients`:
  /// null if the step's gradients have travelled already.
  void begin(const StepResult& result, bool streams, bool writing, GradientExchange* gradients);
  /// Whether the vote travels with the gradients.
  bool is_carried() const { return carrier_ != nullptr; }
  /// Ends the vote; of a vote that is carried, after `GradientExchange::complete`.
  StepVote end();
  /// Votes at the end of a step.
  StepVote vote_after_step(bool writing);

 private:
  StepVote own(bool writing) const;

  World& world_;
  const Requests& requests_;
  bool votes_within_step_;
  GradientExchange* carrier_ = nullptr;  ///< of the vote within the step; null: the world
  std::optional<StepVote> within_step_;
};

/// The exception by which all ranks leave a run that ends by `vote`. `requests`: of this rank.
/// `requeue_signal`: its name. `saved`: the state can be loaded again.
Interrupted ending_of(const StepVote& vote, const Requests& requests, const std::string& requeue_signal,
                      bool saved);

}  // namespace cxtrain
