#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_component_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Model, data, optimizer", text, get));
  };
  add({"model", "model to train", "NAME",
       "--model.ARG sets an argument of the model; `help NAME` lists the arguments."},
      CXTRAIN_MEMBER(model.name));
  add({"model.weights", "start from the weights in this file or checkpoint folder", "PATH"},
      CXTRAIN_MEMBER(model_weights.path));
  add({"model.weights_map", "replace the prefix FROM of stored names by TO", "FROM=TO,...",
       "FROM or TO may be empty: model.= removes a prefix, =model. adds one."},
      CXTRAIN_MEMBER(model_weights.map));
  add({"model.weights_prefix", "load only tensors whose stored name begins with PREFIX, such as backbone.",
       "PREFIX"},
      CXTRAIN_MEMBER(model_weights.prefix));
  add({"model.weights_strict", "require every tensor to fit", nullptr,
       "false: load the tensors that fit, and list those that were left out. For transfer learning."},
      CXTRAIN_MEMBER(model_weights.strict));
  add({"data", "data module [the model's own]", "NAME", "--data.ARG sets an argument of the data module."},
      CXTRAIN_MEMBER(data.name));
  add({"data.path", "file or folder to read", "PATH"}, CXTRAIN_MEMBER(data.path));
  add({"data.batch_size", "samples per batch of one rank"}, CXTRAIN_MEMBER(data.batch_size));
  add({"data.num_workers", "threads per rank that prepare batches; 0: the training thread does"},
      CXTRAIN_MEMBER(data.num_workers));
  add({"data.prefetch_factor", "batches that each data worker prepares ahead"},
      CXTRAIN_MEMBER(data.prefetch_factor));
  add({"data.uneven", "treatment of samples that do not divide evenly among ranks", nullptr,
       "pad: repeat some samples. drop: leave out the rest. exact: every sample once, with shorter batches "
       "on some ranks."},
      CXTRAIN_MEMBER(data.uneven));
  add({"data.fingerprint", "reject a resume if the data have changed", nullptr,
       "The fingerprint of the data is in the checkpoint. false: neither take nor compare a fingerprint, for "
       "example after you added samples on purpose."},
      CXTRAIN_MEMBER(data.fingerprint));
  add({"optimizer", "optimizer [the model's own]", "NAME",
       "--optimizer.lr and other arguments of the optimizer can be set without this option, too."},
      CXTRAIN_MEMBER(optimizer.name));
  add({"lr_scheduler", "learning rate schedule [the model's own]", "NAME",
       "--lr_scheduler.ARG sets an argument of the schedule."},
      CXTRAIN_MEMBER(lr_scheduler.name));
}

}  // namespace cxtrain
