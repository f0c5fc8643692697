#include "cxtrain/trainer/step_vote.h"

#include <array>
#include <csignal>
#include <utility>

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/reduce/step_flags.h"

namespace cxtrain {
namespace {

constexpr std::array kFields{&StepVote::stop,    &StepVote::checkpoint,     &StepVote::save,
                             &StepVote::requeue, &StepVote::validation,     &StepVote::sigint,
                             &StepVote::sigterm, &StepVote::requeue_signal, &StepVote::writing,
                             &StepVote::loss,    &StepVote::skipped,        &StepVote::streams};
static_assert(sizeof(StepVote) == kFields.size(), "each field of a vote has a bit");
static_assert(kFields.size() <= kStepFlags, "a vote travels with gradients");

}  // namespace

std::uint64_t StepVote::to_bits() const {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kFields.size(); ++i) bits |= std::uint64_t{this->*kFields[i]} << i;
  return bits;
}

StepVote StepVote::from_bits(std::uint64_t bits) {
  StepVote vote;
  for (std::size_t i = 0; i < kFields.size(); ++i) vote.*kFields[i] = (bits >> i & 1) != 0;
  return vote;
}

StepVote operator|(const StepVote& a, const StepVote& b) {
  return StepVote::from_bits(a.to_bits() | b.to_bits());
}

StepVote StepVoting::own(bool writing) const {
  const int signal = StopSignals::received();
  return {.stop = requests_.stop,
          .checkpoint = requests_.checkpoint,
          .save = requests_.save,
          .requeue = requests_.requeue,
          .validation = requests_.validation,
          .sigint = signal == SIGINT,
          .sigterm = signal != 0 && signal != SIGINT,
          .requeue_signal = StopSignals::asked_to_requeue(),
          .writing = writing};
}

StepVote StepVoting::vote(bool writing) {
  if (world_.size() == 1) return own(writing);
  const PhaseScope phase(Phase::agree);
  return StepVote::from_bits(world_.any(own(writing).to_bits()));
}

void StepVoting::begin(const StepResult& result, bool streams, bool writing, GradientExchange* gradients) {
  StepVote vote = own(writing);
  vote.loss = result.loss;
  vote.skipped = result.skipped;
  vote.streams = streams;
  const bool carried = votes_within_step_ && gradients != nullptr && gradients->carry(vote.to_bits());
  carrier_ = carried ? gradients : nullptr;
  if (carrier_ == nullptr) world_.begin_any(vote.to_bits());
}

StepVote StepVoting::end() {
  const PhaseScope phase(Phase::agree);
  within_step_ = StepVote::from_bits(carrier_ != nullptr ? carrier_->carried() : world_.end_any());
  return *within_step_;
}

StepVote StepVoting::vote_after_step(bool writing) {
  const std::optional<StepVote> within = std::exchange(within_step_, std::nullopt);
  return votes_within_step_ && within ? *within : vote(writing);
}

Interrupted ending_of(const StepVote& vote, const Requests& requests, const std::string& requeue_signal,
                      bool saved) {
  const ExitCode code = saved ? ExitCode::requeue : ExitCode::terminated;
  if (vote.sigterm) return {code, "SIGTERM"};
  if (vote.sigint) return {ExitCode::interrupted, "SIGINT"};  // the user at the terminal wants no restart
  if (vote.requeue_signal) return {code, requeue_signal};
  return {code, requests.requeue_reason.empty() ? "the request of a callback on another rank"
                                                : requests.requeue_reason};
}

}  // namespace cxtrain
