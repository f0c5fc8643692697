#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/base/stop_signals.h"

namespace cxtrain {

class Checkpointer;
class World;

/// What a rank put into an optimizer step. Of all ranks: what at least one rank put into the step.
struct Contribution {
  bool loss = false;     ///< the loss of at least one micro-batch
  bool skipped = false;  ///< samples, but no loss: the model skipped them
};

/// What this rank asks for: its callbacks, its module, its clock. A request stands until the ranks have voted
/// and the loop has done what was asked.
struct Requests {
  bool stop = false;                                  ///< end the training after this step
  bool checkpoint = false;                            ///< give the state of the training to the callbacks
  bool save = false;                                  ///< write a checkpoint to the disk
  bool requeue = false;                               ///< save, end, and be started again
  bool validation = false;                            ///< validate after this step
  std::string stop_reason = {}, requeue_reason = {};  ///< of the first request
};

/// A rank's vote at the end of a step. Of all ranks: for each field, whether at least one rank voted for it.
struct StepVote {
  // Requests.
  bool stop = false, checkpoint = false, save = false, requeue = false, validation = false;
  // Signals that have come (base/stop_signals.h).
  bool sigint = false, sigterm = false, requeue_signal = false;
  bool writing = false;  ///< the rank still writes its part of a checkpoint
  // Contribution.
  bool loss = false, skipped = false;

  /// Whether the run ends, once its state is saved where that is possible.
  bool ends_run() const { return requeue || sigint || sigterm || requeue_signal; }
  bool wants_checkpoint() const { return checkpoint || save || ends_run(); }
  Contribution contribution() const { return {loss, skipped}; }

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
  /// backward. Then no rank waits for others while its device has nothing to do, and a request takes effect
  /// one step later.
  StepVoting(World& world, const Requests& requests, const std::optional<Checkpointer>& checkpointer,
             bool votes_within_step)
      : world_(world),
        requests_(requests),
        checkpointer_(checkpointer),
        votes_within_step_(votes_within_step) {}

  /// Votes now.
  StepVote vote();
  /// Begins a vote within a step, and ends it: what each rank contributed, and its requests so far.
  void begin(Contribution own);
  StepVote end();
  /// Votes at the end of a step.
  StepVote vote_after_step();

 private:
  StepVote own() const;

  World& world_;
  const Requests& requests_;
  const std::optional<Checkpointer>& checkpointer_;
  bool votes_within_step_;
  std::optional<StepVote> within_step_;
};

/// The exception by which all ranks leave a run that ends by `vote`. `requests`: of this rank.
/// `requeue_signal`: its name. `saved`: the state can be loaded again.
Interrupted ending_of(const StepVote& vote, const Requests& requests, const std::string& requeue_signal,
                      bool saved);

}  // namespace cxtrain
