#include "cxtrain/base/phase_clock.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cxtrain/base/transformed.h"

namespace cxtrain {

PhaseClock* PhaseClock::running_ = nullptr;
void (*PhaseClock::observer_)(Phase) = nullptr;

PhaseClock::PhaseClock() : outer_(running_) {
  rows_.reserve(kKeptSteps);  // no step allocates
  since_ = clock_.now();
  running_ = this;
}

void PhaseClock::stop() noexcept {
  if (std::exchange(stopped_, true)) return;
  count();
  for (std::size_t i = 0; i < kPhases; ++i) total_[i] += std::exchange(of_step_[i], 0);
  running_ = outer_;
}

Phase PhaseClock::begin(Phase phase) noexcept {
  const Phase before = phase_;
  if (before < Phase::checkpoint) change(phase);
  return before;
}

void PhaseClock::change(Phase phase) noexcept {
  if (phase == phase_) return;
  count();
  phase_ = phase;
  if (observer_ != nullptr) observer_(phase);
}

void PhaseClock::count() noexcept {
  const Ticks now = std::max(clock_.now(), since_);  // the counter of another core may be behind
  of_step_[index(phase_)] += now - since_;
  since_ = now;
}

void PhaseClock::close_step() noexcept {
  if (steps_ < kKeptSteps) rows_.emplace_back();
  Row& row = rows_[steps_ % kKeptSteps];
  for (std::size_t i = 0; i < kPhases; ++i) {
    total_[i] += of_step_[i];
    row[i] = static_cast<float>(std::exchange(of_step_[i], 0));
  }
  ++steps_;
}

std::vector<double> PhaseClock::step_seconds(Phase phase) const {
  const double tick = clock_.seconds_of_a_tick();
  return transformed(rows_, [&](const Row& row) { return tick * static_cast<double>(row[index(phase)]); });
}

std::vector<double> PhaseClock::step_seconds() const {
  const double tick = clock_.seconds_of_a_tick();
  return transformed(rows_,
                     [&](const Row& row) { return tick * std::accumulate(row.begin(), row.end(), 0.0); });
}

std::vector<double> PhaseClock::work_seconds(std::size_t most) const {
  const double tick = clock_.seconds_of_a_tick();
  std::vector<double> seconds;
  for (std::size_t step = 0; step < std::min(most, rows_.size()); ++step) {
    double ticks = 0;
    for (std::size_t i = 0; i < kPhases; ++i)
      ticks += is_waiting(static_cast<Phase>(i)) ? 0 : static_cast<double>(rows_[step][i]);
    seconds.push_back(tick * ticks);
  }
  return seconds;
}

}  // namespace cxtrain
