#include "cxtrain/cli/option_binding.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

void add_length_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Length of training", text, get));
  };
  add({"trainer.max_epochs", "stop after N epochs; -1: no limit", nullptr,
       "Default: the model's own number, else 1000; no limit if --max_steps or --max_time is given."},
      CXTRAIN_MEMBER(trainer.max_epochs));
  add({"trainer.min_epochs", "train at least N epochs, even if early stopping asks to stop"},
      CXTRAIN_MEMBER(trainer.min_epochs));
  add({"trainer.max_steps", "stop after N optimizer steps; -1: no limit"}, CXTRAIN_MEMBER(trainer.max_steps));
  add({"trainer.min_steps", "train at least N steps, even if early stopping asks to stop"},
      CXTRAIN_MEMBER(trainer.min_steps));
  add({"trainer.max_time", "stop after this time of training"}, CXTRAIN_MEMBER(trainer.max_time));
  add({"trainer.requeue_signal", "on this signal, save a checkpoint and end with status 75", nullptr,
       "Slurm sends it before the time limit: #SBATCH --signal=USR1@120."},
      CXTRAIN_MEMBER(trainer.requeue_signal));
  add({"trainer.limit_train_batches", "training batches per epoch: a count (10) or a fraction (0.5)"},
      CXTRAIN_MEMBER(trainer.limit_train_batches));
  add({"trainer.limit_val_batches", "validation batches: a count or a fraction; 0: no validation"},
      CXTRAIN_MEMBER(trainer.limit_val_batches));
  add({"trainer.limit_test_batches", "test batches: a count or a fraction"},
      CXTRAIN_MEMBER(trainer.limit_test_batches));
  add({"trainer.limit_predict_batches", "predict batches: a count or a fraction"},
      CXTRAIN_MEMBER(trainer.limit_predict_batches));
  add({"trainer.val_check_interval", "validate every N batches, or more than once per epoch", nullptr,
       "A fraction of an epoch (0.5), a number of batches, or a time (DD:HH:MM:SS)."},
      CXTRAIN_MEMBER(trainer.val_check_interval));
  add({"trainer.check_val_every_n_epoch", "validate every N epochs", nullptr,
       "null: --val_check_interval counts batches across epochs."},
      CXTRAIN_MEMBER(trainer.check_val_every_n_epoch));
  add({"trainer.num_sanity_val_steps", "validation batches to try before training; -1: all"},
      CXTRAIN_MEMBER(trainer.num_sanity_val_steps));
  add({"trainer.overfit_batches", "train and validate on a few training batches only: a count or a fraction"},
      CXTRAIN_MEMBER(trainer.overfit_batches));
  add({"trainer.reload_dataloaders_every_n_epochs",
       "ask the data module for new loaders every N epochs; 0: never"},
      CXTRAIN_MEMBER(trainer.reload_dataloaders_every_n_epochs));
  add({"trainer.use_distributed_sampler", "give each rank its own shard of the samples"},
      CXTRAIN_MEMBER(trainer.use_distributed_sampler));
  add({"trainer.fast_dev_run", "run N batches of each stage as a trial [1]", nullptr,
       "Neither a run folder nor checkpoints are written."},
      CXTRAIN_MEMBER(trainer.fast_dev_run));
  OptionEntry& fast_dev_run = table.back();
  fast_dev_run.bare = "1";
  fast_dev_run.read = [read = fast_dev_run.read](Options& options, const std::string& typed) {
    const auto boolean = parse_boolean(typed);  // Lightning takes true and false as well
    return read(options, boolean ? (*boolean ? "1" : "0") : typed);
  };
}

void add_optimisation_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Optimisation", text, get));
  };
  add({"trainer.accumulate_grad_batches", "batches per optimizer step"},
      CXTRAIN_MEMBER(trainer.accumulate_grad_batches));
  add({"trainer.gradient_clip_val", "clip gradients at this value; 0 or null: no clipping"},
      CXTRAIN_MEMBER(trainer.gradient_clip_val));
  add({"trainer.gradient_clip_algorithm", "clip the norm of all gradients, or each value"},
      CXTRAIN_MEMBER(trainer.gradient_clip_algorithm));
  add({"trainer.track_grad_norm", "log the norm of the gradients, of this order (2, inf); -1: do not log"},
      CXTRAIN_MEMBER(trainer.track_grad_norm));
  add({"trainer.terminate_on_nan", "stop with an error if the loss or a parameter is not finite"},
      CXTRAIN_MEMBER(trainer.terminate_on_nan));
  add({"trainer.max_skipped_steps", "16-mixed: stop after N skipped steps in a row; 0: never", nullptr,
       "A step with gradients that are not finite is skipped, and the loss scale is halved."},
      CXTRAIN_MEMBER(trainer.max_skipped_steps));
  add({"trainer.stochastic_weight_avg", "average the weights over the last epochs"},
      CXTRAIN_MEMBER(trainer.stochastic_weight_avg));
  add({"trainer.auto_lr_find", "search a learning rate before training", nullptr,
       "Writes the sweep to lr_find.csv in the run folder."},
      CXTRAIN_MEMBER(trainer.auto_lr_find));
  add({"trainer.auto_scale_batch_size", "search the largest batch size that fits into memory", nullptr,
       "power: double the batch size until it does not fit. binsearch: then search between the last two. "
       "true: power."},
      CXTRAIN_MEMBER(trainer.auto_scale_batch_size));
  table.back().bare = "power";
  table.back().read = [read = table.back().read, reset = table.back().reset](Options& options,
                                                                             const std::string& typed) {
    const auto boolean = parse_boolean(typed);
    if (boolean != false) return read(options, boolean ? "power" : typed);
    reset(options);
    return std::string();
  };
  add({"trainer.inference_mode", "evaluate in LibTorch's inference mode, without autograd"},
      CXTRAIN_MEMBER(trainer.inference_mode));
  add({"trainer.detect_anomaly", "report the operation that made a gradient NaN (slow)"},
      CXTRAIN_MEMBER(trainer.detect_anomaly));
}

}  // namespace cxtrain
