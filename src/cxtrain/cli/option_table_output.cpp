#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_output_options(OptionTable& table) {
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
  add({"trainer.enable_checkpointing",
       "write checkpoints; --checkpoint.ARG sets the arguments of callbacks.model_checkpoint"},
      CXTRAIN_MEMBER(trainer.enable_checkpointing));
  add({"trainer.log_gpu_memory", "log the memory in use of every GPU, or the least and the most"},
      CXTRAIN_MEMBER(trainer.log_gpu_memory));
  add({"trainer.barebones", "turn off everything that costs time, to measure"},
      CXTRAIN_MEMBER(trainer.barebones));
}

namespace {

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

}  // namespace

void add_general_options(OptionTable& table) {
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
  add_for("fit validate test predict slurm-script doctor",
          {"ckpt_path",
           "resume from this checkpoint, or evaluate it: last, best, auto (the newest that is whole, else "
           "from the start), or the folder of a checkpoint or a run",
           "PATH"},
          CXTRAIN_MEMBER(ckpt_path));
  add_for("fit slurm-script doctor",
          {"max_restarts", "start the job again when it fails, so often, from its newest whole checkpoint"},
          CXTRAIN_MEMBER(max_restarts));
  add_for("fit slurm-script doctor",
          {"min_ranks", "then leave out a rank that fails again and again, while so many remain; 0: never"},
          CXTRAIN_MEMBER(min_ranks));
  add({"timeout_seconds", "end the job when ranks wait longer than this for each other"},
      CXTRAIN_MEMBER(timeout_seconds));
  add({"quiet", "show warnings and errors only"}, CXTRAIN_MEMBER(quiet));
  add_for("plan info doctor", {"json", "print JSON"}, CXTRAIN_MEMBER(json));
  add_for("doctor", {"all", "list what is in order, too"}, CXTRAIN_MEMBER(all));
  add_for("plan info",
          {"hardware", "plan: for the hardware in this file; info (no FILE): print the hardware", "FILE"},
          CXTRAIN_MEMBER(hardware_file));
  add_for("plan", {"ranks", "plan as if under mpirun -np N"}, CXTRAIN_MEMBER(plan_ranks));
  add_for("plan", {"ranks_per_node", "of these, so many on each node"}, CXTRAIN_MEMBER(plan_ranks_per_node));
}

}  // namespace cxtrain
