#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/values.h"

/// All options of a user, under Lightning's names. Plain data: cli/ reads it from the command line and YAML,
/// `resolve()` interprets it.
namespace cxtrain {

struct TrainerOptions {
  // Devices and strategy; texts here, because `resolve()` parses them.
  std::string accelerator = "auto";
  std::optional<std::string> devices = {};
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
  bool logger = true;
  std::string default_root_dir = ".";
  bool barebones = false;

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

  bool operator==(const DataOptions&) const = default;
};

/// A component chosen by name, with the arguments that it defines (checked against its own option list).
struct NamedOptions {
  std::string name;
  std::map<std::string, std::string> args;

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

  bool operator==(const BatchJobOptions&) const = default;
};

struct Options {
  std::string subcommand = "fit";
  TrainerOptions trainer;
  NamedOptions model{"digits", {}};
  WeightsOptions model_weights;
  DataOptions data;
  NamedOptions optimizer;               ///< empty name: the model's own
  NamedOptions lr_scheduler;            ///< empty name: the model's own
  std::vector<NamedOptions> callbacks;  ///< each with a different name
  std::vector<NamedOptions> loggers;    ///< each with a different name; in addition to the files of `logger`
  StrategyOptions strategy;
  /// Arguments of the ModelCheckpoint that every fit has.
  NamedOptions checkpoint{"model_checkpoint", {}};
  std::optional<std::string> ckpt_path = {};  ///< last, best, auto, or a checkpoint's folder; absent: none
  int max_restarts = 0;                       ///< restarts of a fit that fails
  /// With `max_restarts`: drop a rank that keeps failing, down to this number of ranks; 0: never.
  int min_ranks = 0;
  std::optional<std::uint64_t> seed = {};
  std::vector<std::string> plugins;
  double timeout_seconds = 1800;  ///< time limit of a collective; then the job ends
  bool quiet = false;             ///< only warnings and errors on the console

  BatchJobOptions batch_job;  ///< for slurm-script

  // plan, info and doctor
  bool json = false;
  bool all = false;            ///< doctor: list checks without findings, too
  std::string hardware_file;   ///< plan: the hardware to plan for; empty: this machine
  bool show_hardware = false;  ///< info: print the hardware only
  std::optional<int> plan_ranks = {};
  std::optional<int> plan_ranks_per_node = {};

  bool operator==(const Options&) const = default;
};

}  // namespace cxtrain
