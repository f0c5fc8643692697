#include "cxtrain/config/resolve_steps.h"

#include <algorithm>
#include <string>

#include "cxtrain/config/fields.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

class Checker {
 public:
  explicit Checker(std::vector<Problem>& problems) : problems_(problems) {}

  void refuse(const std::string& option, const std::string& message, const std::string& hint = "",
              MessageCode code = MessageCode::out_of_range) {
    problems_.push_back({option, message, hint, code});
  }

  void ordered(const std::string& option, std::optional<std::int64_t> low, const std::string& limit,
               std::optional<std::int64_t> high) {
    if (!low || !high || *high < 0 || *low <= *high) return;  // -1 is no limit
    refuse(option, std::to_string(*low) + " is more than " + limit + "=" + std::to_string(*high));
  }

 private:
  std::vector<Problem>& problems_;
};

/// Each option by itself. Trainer options are named without "trainer.".
void check_ranges(Options options, std::vector<Problem>& problems) {
  options.groups([&](const char*, const std::string& prefix, auto list, const auto&...) {
    list([&](const char* name, const auto& value, const char*, const auto&... limits) {
      field::check((prefix == "trainer." ? "" : prefix) + name, value, problems, limits...);
    });
  });
}

void check_length(const TrainerOptions& trainer, Checker& check) {
  check.ordered("min_epochs", trainer.min_epochs, "max_epochs", trainer.max_epochs);
  check.ordered("min_steps", trainer.min_steps, "max_steps", trainer.max_steps);
}

void check_validation_interval(const TrainerOptions& trainer, Checker& check) {
  if (const std::chrono::seconds* time = trainer.val_check_interval.time()) {
    if (time->count() < 1)
      check.refuse("val_check_interval", std::to_string(time->count()) + " is less than 1",
                   "limit_val_batches=0 turns validation off");
    return;
  }
  const BatchLimit& interval = *trainer.val_check_interval.batches();
  if (interval.is_zero()) {
    check.refuse("val_check_interval", "0 would never validate",
                 "a fraction of an epoch (0.25), or a number of batches (100); limit_val_batches=0 turns "
                 "validation off");
  } else if (const auto again = parse_batch_limit(format_batch_limit(interval)); !again) {
    check.refuse("val_check_interval", again.error);
  }
  if (!trainer.check_val_every_n_epoch && interval.is_fraction()) {
    check.refuse("val_check_interval",
                 format_batch_limit(interval) +
                     " is a fraction of an epoch, but check_val_every_n_epoch=null counts "
                     "batches across epochs",
                 "give a number of batches, as val_check_interval=100", MessageCode::conflicting_options);
  }
}

/// The order of a norm: any above 0, inf, or -1 for none.
void check_norm(double order, Checker& check) {
  if (order == -1 || order > 0) return;
  check.refuse("track_grad_norm", format_real(order) + " is not the order of a norm",
               "2 or inf; -1 logs none");
}

/// Without a logger the run has no folder to write checkpoints to.
void check_checkpoints(const Options& options, Checker& check) {
  const TrainerOptions& trainer = options.trainer;
  const auto& args = options.checkpoint.args;
  const bool wanted = trainer.enable_checkpointing.value_or(!args.empty());
  if (trainer.logger || !wanted || trainer.fast_dev_run > 0 || options.checkpoint.gives("dirpath")) return;
  check.refuse("enable_checkpointing", "without a logger the run has no folder, and checkpoints no place",
               "name one: --checkpoint.dirpath DIR", MessageCode::conflicting_options);
}

void check_restarts(const Options& options, Checker& check) {
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

void check_device_stats(const Options& options, Checker& check) {
  const bool device_stats = std::ranges::any_of(
      options.callbacks, [](const auto& each) { return each.registered_name() == "device_stats"; });
  if (device_stats && (!options.trainer.logger || options.trainer.barebones)) {
    check.refuse("callbacks.device_stats",
                 std::string("has nowhere to log to with ") +
                     (options.trainer.barebones ? "barebones=true" : "logger=false"),
                 "drop one of them", MessageCode::conflicting_options);
  }
}

/// A trace is of use as a file only. What is bare is not measured, as in Lightning.
void check_profiler(const TrainerOptions& trainer, Checker& check) {
  if (!trainer.profiler) return;
  if (trainer.barebones) {
    check.refuse("profiler", "profiles a run that barebones=true keeps free of everything that costs time",
                 "drop one of them", MessageCode::conflicting_options);
  } else if (trainer.profiler == Profiler::trace && (!trainer.logger || trainer.fast_dev_run > 0)) {
    check.refuse("profiler",
                 std::string("trace writes into the run folder, and there is none with ") +
                     (trainer.logger ? "fast_dev_run" : "logger=false"),
                 "use --profiler simple, or drop the other option", MessageCode::conflicting_options);
  }
}

}  // namespace

void check_options(const Options& options, std::vector<Problem>& problems) {
  Checker check(problems);
  check_ranges(options, problems);
  check_length(options.trainer, check);
  check_validation_interval(options.trainer, check);
  check_norm(options.trainer.track_grad_norm, check);
  check_checkpoints(options, check);
  check_restarts(options, check);
  check_device_stats(options, check);
  check_profiler(options.trainer, check);
}

}  // namespace cxtrain
