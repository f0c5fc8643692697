#include "cxtrain/callbacks/stragglers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "cxtrain/base/run_event.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

double median_without(std::span<const double> values, std::size_t left_out) {
  std::vector<double> others;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i != left_out) others.push_back(values[i]);
  }
  std::ranges::sort(others);
  const std::size_t middle = others.size() / 2;
  return others.size() % 2 == 1 ? others[middle] : (others[middle - 1] + others[middle]) / 2;
}

constexpr double kMinSteps = 5, kMaxSteps = 5000;  // the number of steps in a window
constexpr double kWindowSeconds = 0.6;

}  // namespace

std::optional<StragglerDetector::Straggler> StragglerDetector::add(std::span<const double> seconds) {
  const auto slowest = static_cast<std::size_t>(std::ranges::max_element(seconds) - seconds.begin());
  const Straggler window{static_cast<int>(slowest), seconds[slowest], median_without(seconds, slowest)};
  const bool clear = window.seconds > (1 + limits_.in_each) * window.others_seconds;

  recovered_ = clear && window.rank == found_ ? 0 : recovered_ + 1;
  if (recovered_ >= limits_.windows) found_ = -1;
  if (!clear || window.rank != slowest_) in_a_row_.clear();
  slowest_ = window.rank;
  if (!clear) return std::nullopt;
  if (in_a_row_.size() == limits_.windows) in_a_row_.erase(in_a_row_.begin());
  in_a_row_.push_back(window);
  if (in_a_row_.size() < limits_.windows || window.rank == found_) return std::nullopt;

  std::vector<Straggler> by_excess = in_a_row_;
  std::ranges::sort(by_excess, [](const Straggler& a, const Straggler& b) {
    return a.seconds * b.others_seconds < b.seconds * a.others_seconds;
  });
  const Straggler& usual = by_excess[(by_excess.size() - 1) / 2];
  if (usual.seconds < (1 + limits_.in_most) * usual.others_seconds ||
      usual.seconds < usual.others_seconds + limits_.seconds)
    return std::nullopt;
  found_ = window.rank;
  recovered_ = 0;
  return usual;
}

double typical_step(std::vector<double> steps) {
  const std::size_t kept = steps.size() - 2 * steps.size() / 5;
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(kept - 1), steps.end());
  const auto end = steps.begin() + static_cast<std::ptrdiff_t>(kept);
  return std::accumulate(steps.begin(), end, 0.0) / static_cast<double>(kept);
}

void Stragglers::on_train_start(Run&) {
  const bool crowded = cores_of_this_process() < world_.facts().local_size && cores_of_this_process() > 1;
  looks_ = !world_.any_rank(crowded);
  window_ = static_cast<std::size_t>(kMinSteps);
  steps_.reserve(static_cast<std::size_t>(kMaxSteps));
  of_all_ranks_.resize(static_cast<std::size_t>(world_.size()) + 1);
  note_place();
  window_begin_ = last_end_;
}

void Stragglers::note_place() {
  const FlightRecorder& recorder = world_.watchdog().recorder();
  last_end_ = recorder.last_end();
  waited_ = recorder.waited();
}

void Stragglers::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  if (!looks_ || !run.progress().stepped) return;
  const FlightRecorder::Ticks end = last_end_, waited = waited_;
  note_place();
  steps_.push_back(static_cast<double>(last_end_ - end) - static_cast<double>(waited_ - waited));
  if (steps_.size() >= window_) exchange(run);
}

/// All ranks find the same, since all have the same numbers.
void Stragglers::exchange(Run& run) {
  const FlightRecorder& recorder = world_.watchdog().recorder();
  const auto ranks = static_cast<std::size_t>(world_.size());
  std::ranges::fill(of_all_ranks_, 0.0);
  const double tick = recorder.seconds(std::uint64_t{1} << 32) / std::pow(2.0, 32);
  of_all_ranks_[static_cast<std::size_t>(world_.rank())] = tick * typical_step(steps_);
  if (world_.is_root())
    of_all_ranks_[ranks] =
        tick * static_cast<double>(last_end_ - window_begin_) / static_cast<double>(window_);
  world_.sum(of_all_ranks_);
  const double step_seconds = of_all_ranks_[ranks];
  window_ = static_cast<std::size_t>(
      std::clamp(std::ceil(kWindowSeconds / std::max(step_seconds, 1e-6)), kMinSteps, kMaxSteps));
  steps_.clear();
  const auto found = detector_.add({of_all_ranks_.data(), ranks});
  note_place();  // what the exchange has taken is nobody's work
  window_begin_ = last_end_;
  if (!found) return;
  const std::string host = world_.broadcast(world_.facts().hostname, found->rank);
  if (!world_.is_root()) return;
  const double lost = (found->seconds - found->others_seconds) / std::max(step_seconds, found->seconds);
  log_warning("rank " + std::to_string(found->rank) + " on " + host + " is slower than the other ranks: " +
                  std::to_string(std::lround(100 * lost)) + " % of the time is lost waiting for it (step " +
                  std::to_string(run.global_step()) + "; a step takes it " +
                  milliseconds_text(found->seconds) + " without what it waits for others, and the others " +
                  milliseconds_text(found->others_seconds) + ")",
              {.event = RunEvent::Kind::straggler, .step = run.global_step()});
}

}  // namespace cxtrain
