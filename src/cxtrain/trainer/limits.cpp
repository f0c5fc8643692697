#include "cxtrain/trainer/fit_data.h"

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// Lightning's rule: 1000 epochs unless something else ends the run.
std::int64_t epochs_of(const TrainerOptions& options, std::optional<std::int64_t> model_max_epochs) {
  if (options.max_epochs) return *options.max_epochs;
  if (options.max_steps != -1 || options.max_time) return -1;
  if (model_max_epochs) return *model_max_epochs;
  log_warning("max_epochs was not given; training for 1000 epochs (--max_epochs -1 trains without a limit)");
  return 1000;
}

std::int64_t val_interval(const TrainerOptions& options, const FitLimits& limits) {
  const std::int64_t train_batches = limits.train_batches;
  const BatchLimit& interval = *options.val_check_interval.batches();
  if (!limits.length_known && limits.val_counts_across_epochs)
    throw ConfigError("trainer.check_val_every_n_epoch",
                      "null counts batches across epochs, and the epochs of a stream have no known length",
                      "--val_check_interval DD:HH:MM:SS, or a number of epochs",
                      MessageCode::conflicting_options);
  if (interval.is_fraction()) {
    if (!limits.length_known) limited_batches(interval, "val_check_interval", kUnknownBatches);
    const double fraction = std::get<double>(interval.value);
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(static_cast<double>(train_batches) * fraction));
  }
  const std::int64_t batches = std::get<std::int64_t>(interval.value);
  if (batches > train_batches && options.check_val_every_n_epoch) {
    throw ConfigError(
        "trainer.val_check_interval",
        std::to_string(batches) + " batches are more than an epoch's " + std::to_string(train_batches),
        "--check_val_every_n_epoch null counts batches across epochs", MessageCode::out_of_range);
  }
  return batches;
}

}  // namespace

std::int64_t FitLimits::total_steps() const {
  if (max_epochs < 0 || !length_known) return std::max<std::int64_t>(max_steps, 0);
  const std::int64_t by_epochs = max_epochs * steps_per_epoch();
  return max_steps < 0 ? by_epochs : std::min(max_steps, by_epochs);
}

FitLimits fit_limits(const TrainerOptions& options, std::optional<std::int64_t> model_max_epochs,
                     std::int64_t available_train_batches,
                     const std::vector<std::int64_t>& available_val_batches) {
  FitLimits limits;
  limits.accumulate = options.accumulate_grad_batches;
  limits.length_known = available_train_batches != kUnknownBatches;
  limits.log_every = options.log_every_n_steps;
  const bool overfit = !options.overfit_batches.is_zero();
  const BatchLimit& train = overfit ? options.overfit_batches : options.limit_train_batches;
  const BatchLimit& val = overfit ? options.overfit_batches : options.limit_val_batches;
  limits.train_batches =
      limited_batches(train, overfit ? "overfit_batches" : "limit_train_batches", available_train_batches);
  for (const std::int64_t available : available_val_batches) {
    const std::int64_t batches =
        limited_batches(val, overfit ? "overfit_batches" : "limit_val_batches", available);
    limits.val_batches.push_back(batches);
    limits.sanity_batches.push_back(
        options.num_sanity_val_steps < 0 ? batches : std::min(options.num_sanity_val_steps, batches));
  }
  limits.max_steps = options.max_steps;
  limits.min_steps = options.min_steps.value_or(0);
  limits.min_epochs = options.min_epochs.value_or(0);
  limits.max_epochs = epochs_of(options, model_max_epochs);
  if (limits.train_batches == 0 && limits.max_epochs != 0 && limits.max_steps != 0) {
    throw ConfigError("trainer.limit_train_batches",
                      "leaves none of the " + std::to_string(available_train_batches) + " training batches",
                      "a smaller data.batch_size or fewer ranks gives more batches",
                      MessageCode::out_of_range);
  }
  limits.val_every_epochs = options.check_val_every_n_epoch.value_or(1);
  limits.val_counts_across_epochs = !options.check_val_every_n_epoch.has_value();
  if (const std::chrono::seconds* time = options.val_check_interval.time())
    limits.val_every_seconds = static_cast<double>(time->count());
  else if (limits.train_batches > 0)
    limits.val_every_batches = val_interval(options, limits);
  return limits;
}

}  // namespace cxtrain
