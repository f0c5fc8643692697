#include "cxtrain/config/decisions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "cxtrain/config/suggestions.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// Threads that prepare batches, and batches ahead of each: no machine gains by more.
constexpr std::int64_t kMostWorkers = 1000;

class Checker {
 public:
  explicit Checker(std::vector<Problem>& problems) : problems_(problems) {}

  void refuse(const std::string& option, const std::string& message, const std::string& hint = "",
              MessageCode code = MessageCode::out_of_range) {
    problems_.push_back({option, message, hint, code});
  }

  void at_least(const std::string& option, std::int64_t least, std::optional<std::int64_t> value,
                const std::string& hint = "") {
    if (!value || *value >= least) return;
    refuse(option, std::to_string(*value) + " is too small; the least is " + std::to_string(least), hint);
  }

  void between(const std::string& option, std::int64_t least, std::int64_t most,
               std::optional<std::int64_t> value) {
    at_least(option, least, value);
    if (value && *value > most)
      refuse(option, std::to_string(*value) + " is too large; the most is " + std::to_string(most));
  }

  void ordered(const std::string& option, std::optional<std::int64_t> low, const std::string& limit,
               std::optional<std::int64_t> high) {
    if (!low || !high || *high < 0 || *low <= *high) return;  // -1 is no limit
    refuse(option, std::to_string(*low) + " is more than " + limit + "=" + std::to_string(*high));
  }

  /// A limit that was not read by its grammar (a program fills Options itself) is held to the same rules.
  void limit(const std::string& option, const BatchLimit& value) {
    const auto again = parse_batch_limit(format_batch_limit(value));
    if (!again) refuse(option, again.error);
  }

  /// A finite number of at least `least` (more than it, when `open`).
  void real(const std::string& option, double value, double least, bool open) {
    if (std::isfinite(value) && (open ? value > least : value >= least)) return;
    refuse(option, format_real(value) + " is not a finite number " + (open ? "above " : "of at least ") +
                       format_real(least));
  }

 private:
  std::vector<Problem>& problems_;
};

void check_length(const TrainerOptions& trainer, Checker& check) {
  check.at_least("max_epochs", -1, trainer.max_epochs, "-1 means no limit");
  check.at_least("max_steps", -1, trainer.max_steps, "-1 means no limit");
  check.at_least("min_epochs", 0, trainer.min_epochs);
  check.at_least("min_steps", 0, trainer.min_steps);
  check.ordered("min_epochs", trainer.min_epochs, "max_epochs", trainer.max_epochs);
  check.ordered("min_steps", trainer.min_steps, "max_steps", trainer.max_steps);
  if (trainer.max_time) check.at_least("max_time", 0, trainer.max_time->count());
}

void check_validation_interval(const TrainerOptions& trainer, Checker& check) {
  if (const std::chrono::seconds* time = trainer.val_check_interval.time()) {
    check.at_least("val_check_interval", 1, time->count(), "limit_val_batches=0 turns validation off");
    return;
  }
  const BatchLimit& interval = *trainer.val_check_interval.batches();
  if (interval.is_zero()) {
    check.refuse("val_check_interval", "0 would never validate",
                 "a fraction of an epoch (0.25), or a number of batches (100); limit_val_batches=0 turns "
                 "validation off");
  } else {
    check.limit("val_check_interval", interval);
  }
  if (!trainer.check_val_every_n_epoch && interval.is_fraction()) {
    check.refuse("val_check_interval",
                 format_batch_limit(interval) +
                     " is a fraction of an epoch, but check_val_every_n_epoch=null counts "
                     "batches across epochs",
                 "give a number of batches, as val_check_interval=100", MessageCode::conflicting_options);
  }
}

void check_batches(const TrainerOptions& trainer, Checker& check) {
  check.limit("limit_train_batches", trainer.limit_train_batches);
  check.limit("limit_val_batches", trainer.limit_val_batches);
  check.limit("limit_test_batches", trainer.limit_test_batches);
  check.limit("limit_predict_batches", trainer.limit_predict_batches);
  check.limit("overfit_batches", trainer.overfit_batches);
  check_validation_interval(trainer, check);
  check.at_least("check_val_every_n_epoch", 1, trainer.check_val_every_n_epoch,
                 "limit_val_batches=0 turns validation off");
  check.at_least("num_sanity_val_steps", -1, trainer.num_sanity_val_steps, "-1 means all of them");
  check.at_least("fast_dev_run", 0, trainer.fast_dev_run);
  check.at_least("max_skipped_steps", 0, trainer.max_skipped_steps, "0 means no limit");
  check.at_least("reload_dataloaders_every_n_epochs", 0, trainer.reload_dataloaders_every_n_epochs,
                 "0: never");
}

/// The order of a norm: any above 0, inf, or -1 for none.
void check_norm(double order, Checker& check) {
  if (order == -1 || order > 0) return;
  check.refuse("track_grad_norm", format_real(order) + " is not the order of a norm",
               "2 or inf; -1 logs none");
}

void check_optimisation(const TrainerOptions& trainer, Checker& check) {
  check.at_least("accumulate_grad_batches", 1, trainer.accumulate_grad_batches);
  if (trainer.gradient_clip_val) check.real("gradient_clip_val", *trainer.gradient_clip_val, 0.0, false);
  check_norm(trainer.track_grad_norm, check);
}

/// Without a logger the run has no folder to write checkpoints to.
void check_checkpoints(const Options& options, Checker& check) {
  const TrainerOptions& trainer = options.trainer;
  const auto& args = options.checkpoint.args;
  const bool wanted = trainer.enable_checkpointing.value_or(!args.empty());
  if (trainer.logger || !wanted || trainer.fast_dev_run > 0 || args.contains("dirpath")) return;
  check.refuse("enable_checkpointing", "without a logger the run has no folder, and checkpoints no place",
               "name one: --checkpoint.dirpath DIR", MessageCode::conflicting_options);
}

void check_output(const TrainerOptions& trainer, Checker& check) {
  check.at_least("log_every_n_steps", 0, trainer.log_every_n_steps, "0 means never");
}

void check_devices(const TrainerOptions& trainer, Checker& check) {
  check.at_least("num_processes", 1, trainer.num_processes);
}

void check_restarts(const Options& options, Checker& check) {
  check.at_least("max_restarts", 0, options.max_restarts);
  check.at_least("min_ranks", 0, options.min_ranks, "0 leaves no rank out");
  if (options.min_ranks < 1) return;
  if (options.max_restarts == 0)
    check.refuse("min_ranks", "needs --max_restarts, which is 0", "add --max_restarts N",
                 MessageCode::conflicting_options);
  for (const auto& [given, option] :
       {std::pair(options.trainer.gpus.has_value(), "gpus"),
        std::pair(options.trainer.num_processes.has_value(), "num_processes")}) {
    if (given)
      check.refuse("min_ranks", std::string("cannot be combined with --") + option, "use --devices N",
                   MessageCode::conflicting_options);
  }
}

void check_others(const Options& options, Checker& check) {
  check.between("data.batch_size", 1, std::numeric_limits<std::int32_t>::max(), options.data.batch_size);
  check.between("data.num_workers", 0, kMostWorkers, options.data.num_workers);
  check.between("data.prefetch_factor", 1, kMostWorkers, options.data.prefetch_factor);
  const bool device_stats = std::any_of(options.callbacks.begin(), options.callbacks.end(),
                                        [](const auto& each) { return each.name == "device_stats"; });
  if (device_stats && (!options.trainer.logger || options.trainer.barebones)) {
    check.refuse("callbacks.device_stats",
                 std::string("has nowhere to log to with ") +
                     (options.trainer.barebones ? "barebones=true" : "logger=false"),
                 "drop one of them", MessageCode::conflicting_options);
  }
  check.real("timeout_seconds", options.timeout_seconds, 0.0, true);
}

}  // namespace

void check_options(const Options& options, std::vector<Problem>& problems) {
  Checker check(problems);
  check_length(options.trainer, check);
  check_batches(options.trainer, check);
  check_optimisation(options.trainer, check);
  check_output(options.trainer, check);
  check_checkpoints(options, check);
  check_devices(options.trainer, check);
  check_restarts(options, check);
  check_others(options, check);
}

}  // namespace cxtrain
