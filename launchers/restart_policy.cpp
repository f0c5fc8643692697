#include "launchers/restart_policy.h"

#include <algorithm>
#include <array>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// These say what is to be done, or that nothing would help.
bool is_final(int status) {
  constexpr std::array kFinal{ExitCode::done,           ExitCode::refused,     ExitCode::requeue,
                              ExitCode::do_not_requeue, ExitCode::interrupted, ExitCode::terminated};
  return std::ranges::any_of(kFinal, [status](ExitCode code) { return static_cast<int>(code) == status; });
}

}  // namespace

RestartPolicy::Decision RestartPolicy::after(const End& end) {
  if (end.asked_for || is_final(end.status)) return {.status = end.status};
  const bool further = end.step > step_;
  step_ = std::max(step_, end.step);
  const bool same_rank = !further && end.rank && end.rank == last_rank_;
  failures_ = further ? 1 : failures_ + 1;
  last_rank_ = end.rank;

  const std::string place =
      step_ < 0 ? "without a checkpoint" : "since the checkpoint of step " + std::to_string(step_);
  if (failures_ >= kMaxFailuresInOnePlace) {
    return {.status = static_cast<int>(ExitCode::do_not_requeue),
            .why = "the job has failed " + std::to_string(failures_) + " times " + place +
                   " and came no further: it would fail again"};
  }
  if (restarts_ == limits_.max_restarts) {
    return {.status = end.status,
            .why = restarts_ == 0
                       ? ""
                       : "the " + std::to_string(restarts_) + " restarts of --max_restarts are used up"};
  }
  const std::optional<int> fewer = same_rank ? fewer_ranks(end.samples) : std::nullopt;
  if (fewer) {
    Decision decision = again(Decision::Next::without_rank);
    decision.rank = end.rank;
    ranks_ = *fewer;
    decision.why = "rank " + std::to_string(*end.rank) + " has ended the job twice " + place + ", so " +
                   std::to_string(ranks_) + (ranks_ == 1 ? " rank goes" : " ranks go") + " on without it";
    // What comes is another job, with ranks of other numbers.
    failures_ = 0;
    last_rank_.reset();
    return decision;
  }
  return again(failures_ > 1 ? Decision::Next::from_the_one_before : Decision::Next::from_newest);
}

std::optional<int> RestartPolicy::fewer_ranks(std::int64_t samples) const {
  if (limits_.min_ranks < 1 || samples < 1) return std::nullopt;
  for (int ranks = ranks_ - 1; ranks >= limits_.min_ranks; --ranks) {
    if (samples % ranks == 0) return ranks;
  }
  return std::nullopt;
}

RestartPolicy::Decision RestartPolicy::again(Decision::Next next) {
  ++restarts_;
  return {.next = next};
}

}  // namespace cxtrain
