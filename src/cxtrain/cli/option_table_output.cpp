#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_output_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Output", text, get));
  };
  add({"trainer.default_root_dir", "folder below which runs are written", "DIR"},
      CXTRAIN_MEMBER(trainer.default_root_dir));
  add({"trainer.logger", "write metrics to files (CSV, JSON lines, TensorBoard)"},
      CXTRAIN_MEMBER(trainer.logger));
  add({"trainer.log_every_n_steps", "write metrics every N steps; 0: never"},
      CXTRAIN_MEMBER(trainer.log_every_n_steps));
  add({"trainer.enable_progress_bar", "show the progress bar"}, CXTRAIN_MEMBER(trainer.enable_progress_bar));
  add({"trainer.enable_model_summary", "print the layers of the model"},
      CXTRAIN_MEMBER(trainer.enable_model_summary));
  add({"trainer.enable_checkpointing",
       "write checkpoints; --checkpoint.ARG sets an argument of callbacks.model_checkpoint"},
      CXTRAIN_MEMBER(trainer.enable_checkpointing));
  add({"trainer.log_gpu_memory", "log the memory in use: of every GPU, or the least and the most"},
      CXTRAIN_MEMBER(trainer.log_gpu_memory));
  add({"trainer.barebones", "for measurements: turn off everything that costs time"},
      CXTRAIN_MEMBER(trainer.barebones));
}

namespace {

OptionEntry plugin_entry() {
  OptionEntry entry;
  entry.group = "General";
  entry.key = "plugin";
  entry.placeholder = "FILE";
  entry.help = "load a plugin (repeatable)";
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
  add({"seed", "seed of all random numbers"}, CXTRAIN_MEMBER(seed));
  table.push_back(plugin_entry());
  add_for("fit validate test predict slurm-script doctor",
          {"ckpt_path", "checkpoint to resume or evaluate: last, best, auto, PATH", "PATH",
           "last: the newest checkpoint of the newest run. auto: like last, but a new run if there is no "
           "complete checkpoint. best: the best checkpoint of the newest run. Or the folder of a checkpoint "
           "or of a run."},
          CXTRAIN_MEMBER(ckpt_path));
  add_for("fit slurm-script doctor",
          {"max_restarts", "restart a failed job up to N times", nullptr,
           "The job continues from its newest complete checkpoint. Three failures without a newer checkpoint "
           "end the program with status 93."},
          CXTRAIN_MEMBER(max_restarts));
  add_for("fit slurm-script doctor",
          {"min_ranks", "with --max_restarts: drop a rank that keeps failing while N remain; 0: never"},
          CXTRAIN_MEMBER(min_ranks));
  add({"timeout_seconds", "end the job if ranks wait longer than N seconds for each other"},
      CXTRAIN_MEMBER(timeout_seconds));
  add({"quiet", "print warnings and errors only"}, CXTRAIN_MEMBER(quiet));
  add_for("plan info doctor", {"json", "print JSON"}, CXTRAIN_MEMBER(json));
  add_for("doctor", {"all", "list also the checks that found nothing"}, CXTRAIN_MEMBER(all));
  add_for("plan info",
          {"hardware",
           "plan: read the hardware from FILE; info: print the hardware of this machine (no FILE)", "FILE"},
          CXTRAIN_MEMBER(hardware_file));
  add_for("plan", {"ranks", "plan for mpirun -np N"}, CXTRAIN_MEMBER(plan_ranks));
  add_for("plan", {"ranks_per_node", "plan for N ranks on each node"}, CXTRAIN_MEMBER(plan_ranks_per_node));
}

}  // namespace cxtrain
