#include "cxtrain/cli/option_table.h"

#include <algorithm>
#include <array>

#include "cxtrain/cli/option_binding.h"
#include "cxtrain/config/parse_scalar.h"

// The accessor of a member, const and not.
#define CXTRAIN_MEMBER(path) \
  [](auto& options) -> auto& { return options.path; }

namespace cxtrain {
namespace {

using Table = std::vector<OptionEntry>;

void add_devices(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Devices and strategy", text, get));
  };
  add({"trainer.accelerator", "what to train on", "auto|cpu|gpu"}, CXTRAIN_MEMBER(trainer.accelerator));
  add({"trainer.devices", "devices per node: a count, a list (0,2), -1 for all, auto", "LIST"},
      CXTRAIN_MEMBER(trainer.devices));
  add({"trainer.gpus", "the same, and GPUs are meant; 0 trains on the CPU", "LIST"},
      CXTRAIN_MEMBER(trainer.gpus));
  add({"trainer.num_nodes", "nodes; must agree with mpirun or srun"}, CXTRAIN_MEMBER(trainer.num_nodes));
  add({"trainer.strategy", "single, ddp, ddp_spawn, dp, or a plugin's", "NAME"},
      CXTRAIN_MEMBER(trainer.strategy));
  add({"trainer.precision",
       "16-mixed, bf16-mixed, 32-true, 64-true, 16-true, bf16-true; short 16, bf16, 32, 64", "NAME"},
      CXTRAIN_MEMBER(trainer.precision));
  add({"trainer.benchmark", "let cuDNN measure which of its kernels is fastest"},
      CXTRAIN_MEMBER(trainer.benchmark));
  add({"trainer.deterministic", "only algorithms that give the same bits each time"},
      CXTRAIN_MEMBER(trainer.deterministic));
  add({"trainer.sync_batchnorm", "batch norm over the batches of all ranks"},
      CXTRAIN_MEMBER(trainer.sync_batchnorm));
}

void add_length(Table& table) {
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
  add({"trainer.max_time", "stop after this time", "DD:HH:MM:SS"}, CXTRAIN_MEMBER(trainer.max_time));
  add({"trainer.limit_train_batches", "batches of an epoch: a count (10) or a fraction (0.5)"},
      CXTRAIN_MEMBER(trainer.limit_train_batches));
  add({"trainer.limit_val_batches", "the same for validation; 0 turns it off"},
      CXTRAIN_MEMBER(trainer.limit_val_batches));
  add({"trainer.limit_test_batches", "the same for test"}, CXTRAIN_MEMBER(trainer.limit_test_batches));
  add({"trainer.limit_predict_batches", "the same for predict"},
      CXTRAIN_MEMBER(trainer.limit_predict_batches));
  add({"trainer.val_check_interval", "validate after this fraction of an epoch, or every N batches"},
      CXTRAIN_MEMBER(trainer.val_check_interval));
  add({"trainer.check_val_every_n_epoch", "validate every N epochs; null: count batches across epochs"},
      CXTRAIN_MEMBER(trainer.check_val_every_n_epoch));
  add({"trainer.num_sanity_val_steps", "validation batches before training; -1: all"},
      CXTRAIN_MEMBER(trainer.num_sanity_val_steps));
  add({"trainer.overfit_batches", "train and validate on these few training batches only"},
      CXTRAIN_MEMBER(trainer.overfit_batches));
  add({"trainer.fast_dev_run", "run N (1) batches of everything once, to see whether it works"},
      CXTRAIN_MEMBER(trainer.fast_dev_run));
  OptionEntry& fast_dev_run = table.back();
  fast_dev_run.bare = "1";
  fast_dev_run.read = [read = fast_dev_run.read](Options& options, const std::string& typed) {
    const auto boolean = parse_boolean(typed);  // Lightning takes true and false as well
    return read(options, boolean ? (*boolean ? "1" : "0") : typed);
  };
}

void add_optimisation(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Optimisation", text, get));
  };
  add({"trainer.accumulate_grad_batches", "batches whose gradients make one step"},
      CXTRAIN_MEMBER(trainer.accumulate_grad_batches));
  add({"trainer.gradient_clip_val", "clip gradients at this value; 0 or null: do not"},
      CXTRAIN_MEMBER(trainer.gradient_clip_val));
  add({"trainer.gradient_clip_algorithm", "by the norm of all, or by each value", "norm|value"},
      CXTRAIN_MEMBER(trainer.gradient_clip_algorithm));
  add({"trainer.detect_anomaly", "look for the operation that makes a gradient NaN (slow)"},
      CXTRAIN_MEMBER(trainer.detect_anomaly));
  add({"ddp.find_unused_parameters", "leave parameters that no rank used without a gradient"},
      CXTRAIN_MEMBER(ddp.find_unused_parameters));
  add({"ddp.overlap", "reduce gradients during backward; null: where it helps"}, CXTRAIN_MEMBER(ddp.overlap));
  add({"ddp.first_bucket_bytes", "bytes of the first gradient bucket (0: no limit)"},
      CXTRAIN_MEMBER(ddp.first_bucket_bytes));
  add({"ddp.bucket_bytes", "bytes of the others (0: no limit)"}, CXTRAIN_MEMBER(ddp.bucket_bytes));
}

void add_output(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Output", text, get));
  };
  add({"trainer.default_root_dir", "runs are written below this folder", "DIR"},
      CXTRAIN_MEMBER(trainer.default_root_dir));
  add({"trainer.logger", "write metrics to files"}, CXTRAIN_MEMBER(trainer.logger));
  add({"trainer.log_every_n_steps", "how often; 0: never"}, CXTRAIN_MEMBER(trainer.log_every_n_steps));
  add({"trainer.enable_progress_bar", "show progress"}, CXTRAIN_MEMBER(trainer.enable_progress_bar));
  add({"trainer.enable_model_summary", "show the model's layers"},
      CXTRAIN_MEMBER(trainer.enable_model_summary));
  add({"trainer.barebones", "turn off everything that costs time, to measure"},
      CXTRAIN_MEMBER(trainer.barebones));
}

void add_components(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Model, data, optimizer", text, get));
  };
  add({"model", "the model; --model.ARG sets its arguments", "NAME"}, CXTRAIN_MEMBER(model.name));
  add({"data", "the data module; default: the model's own; --data.ARG sets its arguments", "NAME"},
      CXTRAIN_MEMBER(data.name));
  add({"data.path", "file or folder to read", "PATH"}, CXTRAIN_MEMBER(data.path));
  add({"data.batch_size", "samples per rank and batch"}, CXTRAIN_MEMBER(data.batch_size));
  add({"data.num_workers", "threads that prepare batches; 0: the training thread"},
      CXTRAIN_MEMBER(data.num_workers));
  add({"data.prefetch_factor", "batches prepared ahead by each of them"},
      CXTRAIN_MEMBER(data.prefetch_factor));
  add({"data.uneven", "when the ranks do not divide the samples", "pad|drop|exact"},
      CXTRAIN_MEMBER(data.uneven));
  add({"optimizer", "default: the model's own; --optimizer.lr and others set its arguments", "NAME"},
      CXTRAIN_MEMBER(optimizer.name));
  add({"lr_scheduler", "default: the model's own; --lr_scheduler.ARG sets its arguments", "NAME"},
      CXTRAIN_MEMBER(lr_scheduler.name));
}

void add_callbacks(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Callbacks", text, get));
  };
  add({"callbacks.early_stopping_monitor", "stop when this metric no longer improves", "METRIC"},
      CXTRAIN_MEMBER(callbacks.early_stopping_monitor));
  add({"callbacks.early_stopping_mode", "what improving means", "min|max"},
      CXTRAIN_MEMBER(callbacks.early_stopping_mode));
  add({"callbacks.early_stopping_patience", "validations to wait"},
      CXTRAIN_MEMBER(callbacks.early_stopping_patience));
  add({"callbacks.early_stopping_min_delta", "smaller changes do not count"},
      CXTRAIN_MEMBER(callbacks.early_stopping_min_delta));
  add({"callbacks.lr_monitor", "log the learning rate"}, CXTRAIN_MEMBER(callbacks.lr_monitor));
}

OptionEntry plugin_entry() {
  OptionEntry entry;
  entry.group = "General";
  entry.key = "plugin";
  entry.placeholder = "FILE";
  entry.help = "load this plugin (repeatable)";
  entry.repeatable = true;
  entry.read = [](Options& options, const std::string& typed) {
    options.plugins.push_back(typed);
    return std::string();
  };
  entry.reset = [](Options& options) { options.plugins.clear(); };
  entry.write = [](const Options& options) { return options.plugins; };
  return entry;
}

void add_general(Table& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("General", text, get));
  };
  const auto add_for = [&](const char* commands, const OptionText& text, auto get) {
    add(text, get);
    table.back().commands = commands;
    table.back().saved = false;
  };
  add({"seed", "seed of every random number"}, CXTRAIN_MEMBER(seed));
  table.push_back(plugin_entry());
  add({"timeout_seconds", "end the job when ranks wait longer than this for each other"},
      CXTRAIN_MEMBER(timeout_seconds));
  add_for("plan info", {"json", "print JSON"}, CXTRAIN_MEMBER(json));
  add_for("plan info",
          {"hardware", "plan: for the hardware in this file; info (no FILE): print the hardware", "FILE"},
          CXTRAIN_MEMBER(hardware_file));
  add_for("plan", {"ranks", "plan as if under mpirun -np N"}, CXTRAIN_MEMBER(plan_ranks));
  add_for("plan", {"ranks_per_node", "of these, so many on each node"}, CXTRAIN_MEMBER(plan_ranks_per_node));
}

Table make_table() {
  Table table;
  add_components(table);
  add_devices(table);
  add_length(table);
  add_optimisation(table);
  add_output(table);
  add_callbacks(table);
  add_general(table);
  return table;
}

}  // namespace

std::span<const OptionEntry> option_table() {
  static const Table table = make_table();
  return table;
}

const OptionEntry* find_option(std::string_view key) {
  for (const OptionEntry& entry : option_table()) {
    if (entry.key == key || entry.key == "trainer." + std::string(key)) return &entry;
  }
  for (const ComponentEntry& component : component_table()) {
    if (key == component.key + ".name") return find_option(component.key);
  }
  return nullptr;
}

std::span<const ComponentEntry> component_table() {
  using Name = std::string&;
  using Args = std::map<std::string, std::string>&;
  static const std::array<ComponentEntry, 4> components{
      {{"model", [](Options& o) -> Name { return o.model.name; },
        [](Options& o) -> Args { return o.model.args; }},
       {"data", [](Options& o) -> Name { return o.data.name; },
        [](Options& o) -> Args { return o.data.args; }},
       {"optimizer", [](Options& o) -> Name { return o.optimizer.name; },
        [](Options& o) -> Args { return o.optimizer.args; }},
       {"lr_scheduler", [](Options& o) -> Name { return o.lr_scheduler.name; },
        [](Options& o) -> Args { return o.lr_scheduler.args; }}}};
  return components;
}

const ComponentEntry* find_component_of(std::string_view key) {
  if (find_option(key) != nullptr) return nullptr;
  for (const ComponentEntry& component : component_table()) {
    if (key.starts_with(component.key + ".") && key.size() > component.key.size() + 1) return &component;
  }
  return nullptr;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names{"help", "version", "print_config", "config"};
  for (const OptionEntry& entry : option_table()) {
    names.push_back(entry.key);
    if (entry.key.starts_with("trainer.")) names.push_back(entry.key.substr(8));
  }
  return names;
}

}  // namespace cxtrain

#undef CXTRAIN_MEMBER
