#include "cxtrain/cli/option_binding.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

void add_length_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Length of training", text, get));
  };
  add({"trainer.max_epochs",
       "stop after so many epochs; -1: no limit (1000 unless max_steps or max_time is given)"},
      CXTRAIN_MEMBER(trainer.max_epochs));
  add({"trainer.min_epochs", "do not stop early before"}, CXTRAIN_MEMBER(trainer.min_epochs));
  add({"trainer.max_steps", "stop after so many optimizer steps; -1: no limit"},
      CXTRAIN_MEMBER(trainer.max_steps));
  add({"trainer.min_steps", "do not stop early before"}, CXTRAIN_MEMBER(trainer.min_steps));
  add({"trainer.max_time", "stop after this time"}, CXTRAIN_MEMBER(trainer.max_time));
  add({"trainer.requeue_signal", "save, and end with status 75, when this signal comes"},
      CXTRAIN_MEMBER(trainer.requeue_signal));
  add({"trainer.limit_train_batches", "batches of an epoch: a count (10) or a fraction (0.5)"},
      CXTRAIN_MEMBER(trainer.limit_train_batches));
  add({"trainer.limit_val_batches", "the same for validation; 0 turns it off"},
      CXTRAIN_MEMBER(trainer.limit_val_batches));
  add({"trainer.limit_test_batches", "the same for test"}, CXTRAIN_MEMBER(trainer.limit_test_batches));
  add({"trainer.limit_predict_batches", "the same for predict"},
      CXTRAIN_MEMBER(trainer.limit_predict_batches));
  add({"trainer.val_check_interval",
       "validate after this fraction of an epoch, every N batches, or after this time"},
      CXTRAIN_MEMBER(trainer.val_check_interval));
  add({"trainer.check_val_every_n_epoch", "validate every N epochs; null: count batches across epochs"},
      CXTRAIN_MEMBER(trainer.check_val_every_n_epoch));
  add({"trainer.num_sanity_val_steps", "validation batches before training; -1: all"},
      CXTRAIN_MEMBER(trainer.num_sanity_val_steps));
  add({"trainer.overfit_batches", "train and validate on these few training batches only"},
      CXTRAIN_MEMBER(trainer.overfit_batches));
  add({"trainer.reload_dataloaders_every_n_epochs", "ask the data module for new loaders so often; 0: never"},
      CXTRAIN_MEMBER(trainer.reload_dataloaders_every_n_epochs));
  add({"trainer.use_distributed_sampler", "each rank reads its own share of the samples"},
      CXTRAIN_MEMBER(trainer.use_distributed_sampler));
  add({"trainer.fast_dev_run", "run N (1) batches of everything once, to see whether it works"},
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
  add({"trainer.accumulate_grad_batches", "batches whose gradients make one step"},
      CXTRAIN_MEMBER(trainer.accumulate_grad_batches));
  add({"trainer.gradient_clip_val", "clip gradients at this value; 0 or null: do not"},
      CXTRAIN_MEMBER(trainer.gradient_clip_val));
  add({"trainer.gradient_clip_algorithm", "by the norm of all, or by each value"},
      CXTRAIN_MEMBER(trainer.gradient_clip_algorithm));
  add({"trainer.track_grad_norm", "log the gradients' norm of this order (2, inf); -1: do not"},
      CXTRAIN_MEMBER(trainer.track_grad_norm));
  add({"trainer.terminate_on_nan", "end the training when the loss or a parameter is not finite"},
      CXTRAIN_MEMBER(trainer.terminate_on_nan));
  add({"trainer.max_skipped_steps",
       "16-mixed: end the training when so many steps in a row have gradients that are not finite; 0: never"},
      CXTRAIN_MEMBER(trainer.max_skipped_steps));
  add({"trainer.stochastic_weight_avg", "average the weights of the last epochs"},
      CXTRAIN_MEMBER(trainer.stochastic_weight_avg));
  add({"trainer.auto_lr_find", "look for a learning rate before training"},
      CXTRAIN_MEMBER(trainer.auto_lr_find));
  add({"trainer.auto_scale_batch_size", "look for the largest batch that fits before training; true: power"},
      CXTRAIN_MEMBER(trainer.auto_scale_batch_size));
  table.back().bare = "power";
  table.back().read = [read = table.back().read, reset = table.back().reset](Options& options,
                                                                             const std::string& typed) {
    const auto boolean = parse_boolean(typed);
    if (boolean != false) return read(options, boolean ? "power" : typed);
    reset(options);
    return std::string();
  };
  add({"trainer.inference_mode", "evaluate without any of autograd's bookkeeping"},
      CXTRAIN_MEMBER(trainer.inference_mode));
  add({"trainer.detect_anomaly", "look for the operation that makes a gradient NaN (slow)"},
      CXTRAIN_MEMBER(trainer.detect_anomaly));
}

}  // namespace cxtrain
