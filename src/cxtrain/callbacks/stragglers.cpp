#include "cxtrain/callbacks/stragglers.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "cxtrain/base/formatted.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

constexpr double kMinSteps = 5, kMaxSteps = 5000;  // the number of steps in a window
constexpr double kWindowSeconds = 0.6;

std::string in_milliseconds(double seconds) { return formatted("%.3g ms", 1000 * seconds); }

}  // namespace

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
  std::fill(of_all_ranks_.begin(), of_all_ranks_.end(), 0.0);
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
                  std::to_string(run.global_step()) + "; a step takes it " + in_milliseconds(found->seconds) +
                  " without what it waits for others, and the others " +
                  in_milliseconds(found->others_seconds) + ")",
              {.event = RunEvent::Kind::straggler, .step = run.global_step()});
}

}  // namespace cxtrain
