#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_component_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Model, data, optimizer", text, get));
  };
  add({"model", "the model; --model.ARG sets its arguments", "NAME"}, CXTRAIN_MEMBER(model.name));
  add({"model.weights", "file or checkpoint folder that parameters and buffers start from", "PATH"},
      CXTRAIN_MEMBER(model_weights.path));
  add({"model.weights_map", "prefixes of names in it to replace; FROM or TO may be empty", "FROM=TO,..."},
      CXTRAIN_MEMBER(model_weights.map));
  add({"model.weights_prefix", "only the stored tensors whose names begin so, as \"backbone.\"", "PREFIX"},
      CXTRAIN_MEMBER(model_weights.prefix));
  add({"model.weights_strict", "false: take the tensors that fit, and list what was left out"},
      CXTRAIN_MEMBER(model_weights.strict));
  add({"data", "the data module; default: the model's own; --data.ARG sets its arguments", "NAME"},
      CXTRAIN_MEMBER(data.name));
  add({"data.path", "file or folder to read", "PATH"}, CXTRAIN_MEMBER(data.path));
  add({"data.batch_size", "samples per rank and batch"}, CXTRAIN_MEMBER(data.batch_size));
  add({"data.num_workers", "threads that prepare batches; 0: the training thread"},
      CXTRAIN_MEMBER(data.num_workers));
  add({"data.prefetch_factor", "batches prepared ahead by each of them"},
      CXTRAIN_MEMBER(data.prefetch_factor));
  add({"data.uneven", "when the ranks do not divide the samples"}, CXTRAIN_MEMBER(data.uneven));
  add({"data.fingerprint", "refuse to resume a training on other data than it had"},
      CXTRAIN_MEMBER(data.fingerprint));
  add({"optimizer", "default: the model's own; --optimizer.lr and others set its arguments", "NAME"},
      CXTRAIN_MEMBER(optimizer.name));
  add({"lr_scheduler", "default: the model's own; --lr_scheduler.ARG sets its arguments", "NAME"},
      CXTRAIN_MEMBER(lr_scheduler.name));
}

}  // namespace cxtrain
