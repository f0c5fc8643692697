#include "cxtrain/config/presets.h"

#include <algorithm>

namespace cxtrain {
namespace {

bool names(const std::vector<NamedOptions>& list, std::string_view name) {
  return std::ranges::any_of(list, [&](const NamedOptions& each) { return each.name == name; });
}

/// Where nothing else is written, a folder for checkpoints says that they are.
bool checkpoints_by_itself(const Options& options) {
  const TrainerOptions& trainer = options.trainer;
  const bool has_folder = trainer.logger || options.checkpoint.gives("dirpath");
  return trainer.enable_checkpointing.value_or(has_folder) &&
         !names(options.callbacks, options.checkpoint.name);
}

}  // namespace

Options expand_presets(Options options) {
  TrainerOptions& trainer = options.trainer;
  if (const std::int64_t batches = trainer.fast_dev_run; batches > 0) {
    trainer.limit_train_batches = trainer.limit_val_batches = {batches};
    trainer.limit_test_batches = trainer.limit_predict_batches = {batches};
    trainer.overfit_batches = {0.0};
    trainer.max_epochs = 1;
    trainer.max_steps = batches;
    trainer.val_check_interval = {1.0};
    trainer.check_val_every_n_epoch = 1;
    trainer.num_sanity_val_steps = 0;
    trainer.auto_lr_find = false;
    trainer.auto_scale_batch_size.reset();
    trainer.logger = false;
    trainer.enable_checkpointing = false;
    std::erase_if(options.callbacks, [](const NamedOptions& each) {
      return each.registered_name() == "early_stopping" || each.registered_name() == "model_checkpoint";
    });
  }
  if (options.quiet) trainer.enable_progress_bar = false;
  if (trainer.barebones) {
    trainer.log_every_n_steps = 0;
    trainer.num_sanity_val_steps = 0;
    trainer.logger = false;
    trainer.enable_checkpointing = false;
    trainer.enable_progress_bar = false;
    trainer.enable_model_summary = false;
  }
  return options;
}

std::vector<NamedOptions> callbacks_asked_for(const Options& asked) {
  const Options options = expand_presets(asked);
  const TrainerOptions& trainer = options.trainer;
  std::vector<NamedOptions> callbacks;
  if (trainer.max_time)
    callbacks.push_back({"timer", {{"seconds", std::to_string(trainer.max_time->count())}}});
  for (NamedOptions named : options.callbacks) {
    if (named.name == options.checkpoint.name)
      named.args.insert(options.checkpoint.args.begin(), options.checkpoint.args.end());
    callbacks.push_back(std::move(named));
  }
  if (trainer.log_gpu_memory)
    callbacks.push_back({"gpu_memory", {{"log", std::string(word_of(*trainer.log_gpu_memory))}}});
  if (trainer.enable_progress_bar) callbacks.push_back({"progress_bar", {}});
  if (checkpoints_by_itself(options)) callbacks.push_back(options.checkpoint);
  return callbacks;
}

std::vector<NamedOptions> loggers_asked_for(const Options& asked) {
  const Options options = expand_presets(asked);
  std::vector<NamedOptions> loggers = options.loggers;
  if (!options.trainer.logger) return loggers;
  for (const char* file : {"csv", "jsonl", "tensorboard"}) {
    if (!names(options.loggers, file)) loggers.push_back({file, {}});
  }
  return loggers;
}

}  // namespace cxtrain
