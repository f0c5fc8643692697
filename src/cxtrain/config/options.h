#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

/// All options of a user, under Lightning's names. Plain data: cli/ reads it from the command line and YAML,
/// `resolve()` interprets it. A new option is a member and its line in a list of fields (config/field.h):
/// command line, YAML, help, reference, completion and the check of its range follow from the list.
namespace cxtrain {

/// Limit of ranks, nodes and devices. A larger number is a typing error: no machine has more, and its plan
/// would take gigabytes and minutes.
inline constexpr int kMaxRanks = 100'000;
/// Limit of devices, ranks and cores of a node.
inline constexpr int kMaxOfNode = 1024;

struct TrainerOptions {
  // Devices and strategy; texts here, because `resolve()` parses them.
  std::string accelerator = "auto";
  std::optional<Devices> devices = {};
  std::optional<std::string> gpus = {};
  std::optional<int> num_processes = {};  ///< processes on the CPU
  bool auto_select_gpus = false;          ///< choose unused GPUs if the devices are a count
  int devices_per_rank = 1;               ///< consecutive devices of a rank, for split models
  std::optional<int> num_nodes = {};
  std::optional<std::string> strategy = {};
  std::optional<std::string> precision = {};  ///< absent: decided by amp_level, else 32-true
  std::optional<std::string> amp_backend = {};
  std::optional<std::string> amp_level = {};  ///< O0, O1, O2, O3: apex's levels
  std::optional<bool> use_amp = {};
  std::optional<MatmulPrecision> float32_matmul_precision = {};  ///< absent: LibTorch's default
  bool channels_last = false;                                    ///< weights and inputs of four dimensions
  std::optional<bool> benchmark = {};
  Deterministic deterministic = {};
  bool sync_batchnorm = false;

  // Length of the run.
  /// -1: no limit; absent: 1000 unless max_steps or max_time is given.
  std::optional<std::int64_t> max_epochs = {};
  std::optional<std::int64_t> min_epochs = {};
  std::int64_t max_steps = -1;
  std::optional<std::int64_t> min_steps = {};
  std::optional<std::chrono::seconds> max_time = {};
  RequeueSignal requeue_signal = RequeueSignal::sigusr1;
  BatchLimit limit_train_batches = {}, limit_val_batches = {}, limit_test_batches = {},
             limit_predict_batches = {};
  CheckInterval val_check_interval = {};  ///< fraction of an epoch, every n batches, or a time
  std::optional<std::int64_t> check_val_every_n_epoch = 1;
  std::int64_t num_sanity_val_steps = 2;
  std::int64_t fast_dev_run = 0;  ///< n > 0: n batches of everything, once, without loggers
  BatchLimit overfit_batches{0.0};
  std::int64_t reload_dataloaders_every_n_epochs = 0;  ///< 0: never
  bool use_distributed_sampler = true;

  // Optimisation.
  std::int64_t accumulate_grad_batches = 1;
  std::optional<double> gradient_clip_val = {};
  GradientClipAlgorithm gradient_clip_algorithm = GradientClipAlgorithm::norm;
  double track_grad_norm = -1;  ///< the norm's order (2, inf); -1: off
  bool detect_anomaly = false;
  bool recompute_blocks = false;
  bool terminate_on_nan = false;
  std::int64_t max_skipped_steps = 100;  ///< in a row, by the loss scale; 0: no limit
  bool stochastic_weight_avg = false;
  bool auto_lr_find = false;
  std::optional<BatchScaling> auto_scale_batch_size = {};
  bool inference_mode = true;  ///< evaluate without autograd's bookkeeping at all

  // Output.
  std::int64_t log_every_n_steps = 50;
  bool enable_progress_bar = true;
  bool enable_model_summary = true;
  std::optional<bool> enable_checkpointing = {};
  std::optional<GpuMemoryLog> log_gpu_memory = {};
  std::optional<Profiler> profiler = {};
  bool logger = true;
  std::string default_root_dir = ".";
  bool barebones = false;

  void device_fields(auto&& field) {
    field("accelerator", accelerator, "kind of device to train on", option::Shown{"auto|cpu|gpu"});
    field("devices", devices, "devices per node: a count, a list (0,2), -1 or auto", option::Shown{"LIST"},
          option::Details{"-1 and auto: all GPUs. Under mpirun or srun the launcher decides the number of "
                          "ranks, and this option must agree."});
    field("gpus", gpus, "like --devices, for GPUs only; 0: train on the CPU", option::Shown{"LIST"});
    field("num_processes", num_processes, "CPU ranks per node", Range::at_least(1));
    field("auto_select_gpus", auto_select_gpus, "choose unused GPUs if --devices is a count");
    field("devices_per_rank", devices_per_rank, "devices of each rank, for a model that is split over them",
          Range::between(1, kMaxOfNode));
    field("num_nodes", num_nodes, "number of nodes; must equal the number that mpirun or srun started",
          Range::between(1, kMaxRanks));
    field("strategy", strategy, "single, ddp, ddp_spawn, dp, zero, pipeline, a plugin", option::Shown{"NAME"},
          option::Details{"single: one rank. ddp: one rank per device, gradients averaged. ddp_spawn: ddp on "
                          "one machine, without mpirun. dp: one rank with several devices. zero: ddp whose "
                          "ranks divide memory. pipeline: each rank has some blocks of the model. "
                          "--strategy.ARG sets an argument of the strategy."});
    field("precision", precision, "32-true, 16-mixed, bf16-mixed, 16-true, ...", option::Shown{"NAME"},
          option::Details{"All: 16-mixed, bf16-mixed, 32-true, 64-true, 16-true, bf16-true. Short: 16 is "
                          "16-mixed, bf16 is bf16-mixed, 32 and 64 are the true ones."});
    field("amp_level", amp_level,
          "level of apex: O1 is 16-mixed; O2 adds 16-bit weights with float32 master weights",
          option::Shown{"O0|O1|O2|O3"});
    field("amp_backend", amp_backend, "both do the same; apex with precision 16 and no level means O2",
          option::Shown{"native|apex"});
    field("use_amp", use_amp, "true: precision 16-mixed; false: no mixed precision, even with --amp_level");
    field("float32_matmul_precision", float32_matmul_precision,
          "high, medium: GPUs may multiply float32 matrices as TF32 or bfloat16");
    field("channels_last", channels_last, "store images and convolution weights with channels last",
          option::Details{"Often faster, above all in 16 bits."});
    field("benchmark", benchmark, "let cuDNN measure and choose its fastest kernels");
    field("deterministic", deterministic, "use only algorithms that repeat bit for bit",
          option::Details{"warn: warn about an operation that has no such algorithm, instead of an error."});
    field("sync_batchnorm", sync_batchnorm, "compute batch norm over the batches of all ranks");
  }

  void length_fields(auto&& field) {
    field("max_epochs", max_epochs, "stop after N epochs; -1: no limit",
          Range::at_least(-1, "-1 means no limit"),
          option::Details{"Default: the model's own number, else 1000; no limit if --max_steps or --max_time "
                          "is given."});
    field("min_epochs", min_epochs, "train at least N epochs, even if early stopping asks to stop",
          Range::at_least(0));
    field("max_steps", max_steps, "stop after N optimizer steps; -1: no limit",
          Range::at_least(-1, "-1 means no limit"));
    field("min_steps", min_steps, "train at least N steps, even if early stopping asks to stop",
          Range::at_least(0));
    field("max_time", max_time, "stop after this time of training", Range::at_least(0));
    field("requeue_signal", requeue_signal, "on this signal, save a checkpoint and end with status 75",
          option::Details{"Slurm sends it before the time limit: #SBATCH --signal=USR1@120."});
    field("limit_train_batches", limit_train_batches,
          "training batches per epoch: a count (10) or a fraction (0.5)");
    field("limit_val_batches", limit_val_batches,
          "validation batches: a count or a fraction; 0: no validation");
    field("limit_test_batches", limit_test_batches, "test batches: a count or a fraction");
    field("limit_predict_batches", limit_predict_batches, "predict batches: a count or a fraction");
    field("val_check_interval", val_check_interval, "validate every N batches, or more than once per epoch",
          option::Details{"A fraction of an epoch (0.5), a number of batches, or a time (DD:HH:MM:SS)."});
    field("check_val_every_n_epoch", check_val_every_n_epoch, "validate every N epochs",
          Range::at_least(1, "limit_val_batches=0 turns validation off"),
          option::Details{"null: --val_check_interval counts batches across epochs."});
    field("num_sanity_val_steps", num_sanity_val_steps, "validation batches to try before training; -1: all",
          Range::at_least(-1, "-1 means all of them"));
    field("overfit_batches", overfit_batches,
          "train and validate on a few training batches only: a count or a fraction");
    field("reload_dataloaders_every_n_epochs", reload_dataloaders_every_n_epochs,
          "ask the data module for new loaders every N epochs; 0: never", Range::at_least(0, "0: never"));
    field("use_distributed_sampler", use_distributed_sampler, "give each rank its own shard of the samples");
    field("fast_dev_run", fast_dev_run, "run N batches of each stage as a trial [1]", Range::at_least(0),
          option::TrueMeans{"1"}, option::Details{"Neither a run folder nor checkpoints are written."});
  }

  void optimisation_fields(auto&& field) {
    field("accumulate_grad_batches", accumulate_grad_batches, "batches per optimizer step",
          Range::at_least(1));
    field("gradient_clip_val", gradient_clip_val, "clip gradients at this value; 0 or null: no clipping",
          Range::at_least(0));
    field("gradient_clip_algorithm", gradient_clip_algorithm,
          "clip the norm of all gradients, or each value");
    field("track_grad_norm", track_grad_norm,
          "log the norm of the gradients, of this order (2, inf); -1: do not log", Range::any());
    field(
        "recompute_blocks", recompute_blocks,
        "keep no activations of a model's blocks: backward runs their forward passes again",
        option::Details{"Activations then take the memory of one block. A step takes about a third longer."});
    field("terminate_on_nan", terminate_on_nan,
          "stop with an error if the loss or a parameter is not finite");
    field("max_skipped_steps", max_skipped_steps, "16-mixed: stop after N skipped steps in a row; 0: never",
          Range::at_least(0, "0 means no limit"),
          option::Details{
              "A step with gradients that are not finite is skipped, and the loss scale is halved."});
    field("stochastic_weight_avg", stochastic_weight_avg, "average the weights over the last epochs");
    field("auto_lr_find", auto_lr_find, "search a learning rate before training",
          option::Details{"Writes the sweep to lr_find.csv in the run folder."});
    field(
        "auto_scale_batch_size", auto_scale_batch_size, "search the largest batch size that fits into memory",
        option::TrueMeans{"power"},
        option::Details{"power: double the batch size until it does not fit. binsearch: then search between "
                        "the last two. true: power."});
    field("inference_mode", inference_mode, "evaluate in LibTorch's inference mode, without autograd");
    field("detect_anomaly", detect_anomaly, "report the operation that made a gradient NaN (slow)");
  }

  void output_fields(auto&& field) {
    field("default_root_dir", default_root_dir, "folder below which runs are written", option::Shown{"DIR"});
    field("logger", logger, "write metrics to files (CSV, JSON lines, TensorBoard)");
    field("log_every_n_steps", log_every_n_steps, "write metrics every N steps; 0: never",
          Range::at_least(0, "0 means never"));
    field("enable_progress_bar", enable_progress_bar, "show the progress bar");
    field("enable_model_summary", enable_model_summary, "print the layers of the model");
    field("enable_checkpointing", enable_checkpointing,
          "write checkpoints; --checkpoint.ARG sets an argument of callbacks.model_checkpoint");
    field("log_gpu_memory", log_gpu_memory, "log the memory in use: of every GPU, or the least and the most");
    field("profiler", profiler, "measure where the time of a fit goes",
          option::Details{"simple: the time of each phase of a step, as a table at the end, and in "
                          "profile.json. trace (also: pytorch): the same, and trace.json.gz with the "
                          "operations of steps 10 to 14, for ui.perfetto.dev."});
    field("barebones", barebones, "for measurements: turn off everything that costs time");
  }

  bool operator==(const TrainerOptions&) const = default;
};

struct DataOptions {
  std::string name;  ///< a data module by name; empty: the model's own
  std::string path;
  std::optional<std::int64_t> batch_size = {};  ///< samples per rank and micro-batch; absent: the model's own
  int num_workers = 0;
  int prefetch_factor = 2;
  Uneven uneven = Uneven::pad;  ///< if the ranks do not divide the samples
  bool fingerprint = true;      ///< checkpoints keep a fingerprint of the training data; a resume compares it
  std::map<std::string, std::string> args;  ///< arguments that the data module defines

  void fields(auto&& field) {
    /// More threads or batches do not help on any machine.
    constexpr int kMaxWorkers = 1000;
    field("data", name, "data module [the model's own]", option::Shown{"NAME"},
          option::Details{"--data.ARG sets an argument of the data module."});
    field("data.path", path, "file or folder to read", option::Shown{"PATH"});
    field("data.batch_size", batch_size, "samples per batch of one rank",
          Range::between(1, std::numeric_limits<std::int32_t>::max()));
    field("data.num_workers", num_workers,
          "threads per rank that prepare batches; 0: the training thread does",
          Range::between(0, kMaxWorkers));
    field("data.prefetch_factor", prefetch_factor, "batches that each data worker prepares ahead",
          Range::between(1, kMaxWorkers));
    field(
        "data.uneven", uneven, "treatment of samples that do not divide evenly among ranks",
        option::Details{"pad: repeat some samples. drop: leave out the rest. exact: every sample once, with "
                        "shorter batches on some ranks."});
    field("data.fingerprint", fingerprint, "reject a resume if the data have changed",
          option::Details{"The fingerprint of the data is in the checkpoint. false: neither take nor compare "
                          "a fingerprint, for example after you added samples on purpose."});
  }

  bool operator==(const DataOptions&) const = default;
};

/// A component chosen by name, with the arguments that it defines (checked against its own option list).
struct NamedOptions {
  std::string name;  ///< several callbacks of a class: "model_checkpoint", "model_checkpoint#2"
  std::map<std::string, std::string> args;

  /// Returns the component's name in the registry: "model_checkpoint" for "model_checkpoint#2".
  std::string registered_name() const { return name.substr(0, name.find('#')); }
  /// Returns whether the argument has a text that is not empty.
  bool gives(const std::string& argument) const {
    const auto found = args.find(argument);
    return found != args.end() && !found->second.empty();
  }
  bool operator==(const NamedOptions&) const = default;
};

/// Arguments of the strategy, as the user types them: of the strategy in `trainer.strategy`, or of the plan's
/// choice if that is absent.
struct StrategyOptions {
  /// `--strategy.ARG`; rejected if the strategy has no argument ARG.
  std::map<std::string, std::string> args = {};
  /// `--ddp.ARG`, an older name of `--strategy.ARG`; ignored, with a warning, if the strategy has no argument
  /// ARG. If both are given, the value in `args` counts.
  std::map<std::string, std::string> ddp_args = {};

  bool operator==(const StrategyOptions&) const = default;
};

/// Source of the model's parameters and buffers at the start (checkpoint/load_weights.h).
struct WeightsOptions {
  std::string path;    ///< a file or a checkpoint's folder; empty: the values of the model's constructor
  std::string map;     ///< "FROM=TO[,FROM=TO...]": prefixes of stored names and their replacements
  std::string prefix;  ///< only stored tensors with this prefix of the name; empty: all
  bool strict = true;  ///< reject weights that do not fit completely

  void fields(auto&& field) {
    field("model.weights", path, "start from the weights in this file or checkpoint folder",
          option::Shown{"PATH"});
    field("model.weights_map", map, "replace the prefix FROM of stored names by TO",
          option::Shown{"FROM=TO,..."},
          option::Details{"FROM or TO may be empty: model.= removes a prefix, =model. adds one."});
    field("model.weights_prefix", prefix,
          "load only tensors whose stored name begins with PREFIX, such as backbone.",
          option::Shown{"PREFIX"});
    field("model.weights_strict", strict, "require every tensor to fit",
          option::Details{"false: load the tensors that fit, and list those that were left out. For transfer "
                          "learning."});
  }

  bool operator==(const WeightsOptions&) const = default;
};

/// Requests of a batch job to Slurm, named as in sbatch; empty: no request.
struct BatchJobOptions {
  int nodes = 1;
  std::optional<int> gpus_per_node = {};    ///< also the number of ranks; absent: ranks on the CPU
  std::optional<int> ntasks_per_node = {};  ///< ranks; absent: one per GPU, else one
  std::optional<int> cpus_per_task = {};
  std::string time = "01:00:00";
  std::string signal = "USR1@120";  ///< signal to the job, and its time in seconds before the job's end
  std::string job_name = "cxtrain";
  std::string partition, account, qos, constraint, mem, array;
  bool submit = false;

  void fields(auto&& field) {
    field("nodes", nodes, "number of nodes [1]", Range::between(1, kMaxRanks));
    field("gpus_per_node", gpus_per_node, "GPUs per node, one rank for each", Range::between(1, kMaxOfNode));
    field("ntasks_per_node", ntasks_per_node, "ranks per node [one per GPU, else 1]",
          Range::between(1, kMaxOfNode));
    field("cpus_per_task", cpus_per_task, "cores per rank", Range::between(1, kMaxOfNode));
    field("time", time, "time limit of the job, in the format of sbatch [01:00:00]", option::Shown{"TIME"});
    field("signal", signal,
          "signal on which ranks save, and seconds before the time limit at which Slurm sends it [USR1@120]",
          option::Shown{"SIGNAL@SECONDS"});
    field("job_name", job_name, "name of the job [cxtrain]");
    field("partition", partition, "partition of the job");
    field("account", account, "account that is charged");
    field("qos", qos, "quality of service of the job");
    field("constraint", constraint, "features that the nodes must have");
    field("mem", mem, "memory per node, in the format of sbatch", option::Shown{"SIZE"});
    field("array", array, "job array: one training per index, such as 0-9", option::Shown{"INDICES"});
    field("submit", submit, "submit the job, and print its output until it ends");
  }

  bool operator==(const BatchJobOptions&) const = default;
};

struct Options {
  std::string subcommand = "fit";
  TrainerOptions trainer = {};
  NamedOptions model{"digits", {}};
  WeightsOptions model_weights = {};
  DataOptions data = {};
  NamedOptions optimizer = {};               ///< empty name: the model's own
  NamedOptions lr_scheduler = {};            ///< empty name: the model's own
  std::vector<NamedOptions> callbacks = {};  ///< each with a different name
  std::vector<NamedOptions> loggers =
      {};  ///< each with a different name; in addition to the files of `logger`
  StrategyOptions strategy = {};
  /// Arguments of the ModelCheckpoint that every fit has.
  NamedOptions checkpoint{"model_checkpoint", {}};
  std::optional<std::string> ckpt_path = {};  ///< last, best, auto, or a checkpoint's folder; absent: none
  int max_restarts = 0;                       ///< restarts of a fit that fails
  /// With `max_restarts`: drop a rank that keeps failing, down to this number of ranks; 0: never.
  int min_ranks = 0;
  std::optional<std::uint64_t> seed = {};
  std::vector<std::string> plugins = {};
  double timeout_seconds = 1800;  ///< time limit of a collective; then the job ends
  bool quiet = false;             ///< only warnings and errors on the console

  BatchJobOptions batch_job = {};  ///< for slurm-script

  // plan, info and doctor
  bool json = false;
  bool all = false;                ///< doctor: list checks without findings, too
  std::string hardware_file = {};  ///< plan: the hardware to plan for; empty: this machine
  bool show_hardware = false;      ///< info: print the hardware only
  std::optional<int> plan_ranks = {};
  std::optional<int> plan_ranks_per_node = {};
  bool plan_estimate = false;
  std::string plan_study;  ///< the folder of the scaling study that the estimate is made by

  void component_fields(auto&& field) {
    field("model", model.name, "model to train", option::Shown{"NAME"},
          option::Details{"--model.ARG sets an argument of the model; `help NAME` lists the arguments."});
    model_weights.fields(field);
    data.fields(field);
    field("optimizer", optimizer.name, "optimizer [the model's own]", option::Shown{"NAME"},
          option::Details{
              "--optimizer.lr and other arguments of the optimizer can be set without this option, too."});
    field("lr_scheduler", lr_scheduler.name, "learning rate schedule [the model's own]",
          option::Shown{"NAME"}, option::Details{"--lr_scheduler.ARG sets an argument of the schedule."});
  }

  void general_fields(auto&& field) {
    constexpr option::OnlyFor kFit{"fit slurm-script doctor"}, kPlan{"plan"};
    field("seed", seed, "seed of all random numbers");
    field("plugin", plugins, "load a plugin (repeatable)", option::Shown{"FILE"});
    field("ckpt_path", ckpt_path, "checkpoint to resume or evaluate: last, best, auto, PATH",
          option::Shown{"PATH"}, option::OnlyFor{"fit validate test predict slurm-script doctor"},
          option::Details{"last: the newest checkpoint of the newest run. auto: like last, but a new run if "
                          "no run has a checkpoint. best: the best checkpoint of the newest run. Or "
                          "the folder of a checkpoint or of a run."});
    field("max_restarts", max_restarts, "restart a failed job up to N times", Range::at_least(0), kFit,
          option::Details{"The job continues from its newest complete checkpoint. Three failures without a "
                          "newer checkpoint end the program with status 93."});
    field("min_ranks", min_ranks,
          "with --max_restarts: drop a rank that keeps failing while N remain; 0: never",
          Range::at_least(0, "0 leaves no rank out"), kFit);
    field("timeout_seconds", timeout_seconds,
          "end the job if ranks wait longer than N seconds for each other", Range::above(0));
    field("quiet", quiet, "print warnings and errors only");
    field("json", json, "print JSON", option::OnlyFor{"plan info doctor"});
    field("all", all, "list also the checks that found nothing", option::OnlyFor{"doctor"});
    field("hardware", hardware_file,
          "plan: read the hardware from FILE; info: print the hardware of this machine (no FILE)",
          option::Shown{"FILE"}, option::OnlyFor{"plan info"});
    field("ranks", plan_ranks, "plan for mpirun -np N", Range::between(1, kMaxRanks), kPlan);
    field("ranks_per_node", plan_ranks_per_node, "plan for N ranks on each node",
          Range::between(1, kMaxRanks), kPlan);
    field(
        "estimate", plan_estimate, "estimate the time and the core or GPU hours", kPlan,
        option::Details{"Takes the time of a step from a scaling study (--from), measured or predicted, and "
                        "the number of steps from --max_steps."});
    field("from", plan_study, "the folder of the scaling study for --estimate", option::Shown{"FOLDER"},
          kPlan);
  }

  /// Calls `group(title, prefix, list, attributes ...)` for each group of options, in the order of `--help`.
  /// `list(field)` calls `field` for the options of the group, whose names begin with `prefix` and whose
  /// attributes are their own and those of the group.
  void groups(auto&& group) {
    group("Model, data, optimizer", "", [this](auto&& field) { this->component_fields(field); });
    group("Devices and strategy", "trainer.", [this](auto&& field) { trainer.device_fields(field); });
    group("Length of training", "trainer.", [this](auto&& field) { trainer.length_fields(field); });
    group("Optimisation", "trainer.", [this](auto&& field) { trainer.optimisation_fields(field); });
    group("Output", "trainer.", [this](auto&& field) { trainer.output_fields(field); });
    group("General", "", [this](auto&& field) { this->general_fields(field); });
    group(
        "Batch job", "", [this](auto&& field) { batch_job.fields(field); }, option::OnlyFor{"slurm-script"});
  }

  bool operator==(const Options&) const = default;
};

}  // namespace cxtrain
