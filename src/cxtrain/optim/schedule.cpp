#include "cxtrain/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

double warmup_factor(std::int64_t t, std::int64_t warmup) {
  return t < warmup ? static_cast<double>(t + 1) / static_cast<double>(warmup) : 1.0;
}

/// From `from` (x = 0) to `to` (x = 1) along half a cosine.
double cosine_between(double from, double to, double x) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * std::clamp(x, 0.0, 1.0)));
}

std::int64_t length_of(std::int64_t own, std::int64_t run, const char* name) {
  if (own > 0) return own;
  if (run > 0) return run;
  throw ConfigError("lr_scheduler", std::string(name) + " needs the length of the run",
                    "give trainer.max_steps, trainer.max_epochs or lr_scheduler.total; with a stream, whose "
                    "epochs have no known length, max_steps or total",
                    MessageCode::missing_value);
}

double one_cycle(const OneCycleSchedule& s, std::int64_t t, std::int64_t run) {
  // torch counts to total - 1, so that the last step has the final rate.
  const auto last = static_cast<double>(std::max<std::int64_t>(length_of(s.total, run, "one_cycle") - 1, 1));
  const double peak = s.pct_start * (last + 1) - 1;
  const double start = 1 / s.div_factor, end = start / s.final_div_factor;
  const auto x = static_cast<double>(t);
  return x <= peak ? cosine_between(start, 1, peak > 0 ? x / peak : 1)
                   : cosine_between(1, end, (x - peak) / (last - peak));
}

}  // namespace

double schedule_factor(const ScheduleConfig& schedule, std::int64_t t, std::int64_t total) {
  return std::visit(
      Overloaded{
          [&](const ConstantSchedule& s) { return warmup_factor(t, s.warmup); },
          [&](const CosineSchedule& s) {
            if (t < s.warmup) return warmup_factor(t, s.warmup);
            const std::int64_t length =
                std::max<std::int64_t>(length_of(s.total, total, "cosine") - s.warmup, 1);
            return cosine_between(1, s.min_ratio,
                                  static_cast<double>(t - s.warmup) / static_cast<double>(length));
          },
          [&](const StepSchedule& s) {
            const std::int64_t steps = t / s.step_size;
            return std::pow(s.gamma, static_cast<double>(steps));
          },
          [&](const MultiStepSchedule& s) {
            const auto passed = std::ranges::count_if(s.milestones, [&](auto m) { return m <= t; });
            return std::pow(s.gamma, static_cast<double>(passed));
          },
          [&](const ExponentialSchedule& s) { return std::pow(s.gamma, static_cast<double>(t)); },
          [&](const OneCycleSchedule& s) { return one_cycle(s, t, total); },
          [&](const PlateauSchedule&) { return 1.0; },
      },
      schedule);
}

void PlateauState::observe(const PlateauSchedule& schedule, double metric) {
  const bool minimise = schedule.mode == "min";
  const double margin = 1 + (minimise ? -schedule.threshold : schedule.threshold);
  const bool better =
      !std::isnan(metric) && (!has_best || (minimise ? metric < best * margin : metric > best * margin));
  if (better) {
    best = metric;
    has_best = true;
    bad_epochs = 0;
    return;
  }
  if (++bad_epochs <= schedule.patience) return;
  factor = std::max(factor * schedule.factor, schedule.min_ratio);
  bad_epochs = 0;
}

OptimizerSetup with_schedule(OptimizerConfig optimizer, ScheduleConfig schedule) {
  return OptimizerSetup{.optimizer = std::move(optimizer), .schedule = std::move(schedule)};
}

Interval interval_of(const OptimizerSetup& setup) {
  if (setup.interval) return *setup.interval;
  const auto* constant = std::get_if<ConstantSchedule>(&setup.schedule);
  const bool in_steps = std::holds_alternative<CosineSchedule>(setup.schedule) ||
                        std::holds_alternative<OneCycleSchedule>(setup.schedule) ||
                        (constant != nullptr && constant->warmup > 0);
  return in_steps ? Interval::step : Interval::epoch;
}

}  // namespace cxtrain
