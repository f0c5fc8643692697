#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/values.h"

/// Everything that a user can ask for, under Lightning's names. Plain data: reading it from the command line
/// and YAML is cli/'s business, making sense of it `resolve()`'s.
namespace cxtrain {

struct TrainerOptions {
  // Devices and strategy; texts here, because their grammars are resolve()'s.
  std::string accelerator = "auto";
  std::optional<std::string> devices = {};
  std::optional<std::string> gpus = {};
  std::optional<int> num_processes = {};  ///< processes on the CPU
  bool auto_select_gpus = false;          ///< a count of GPUs picks free ones
  int devices_per_rank = 1;               ///< consecutive devices of a rank, for split models
  std::optional<int> num_nodes = {};
  std::optional<std::string> strategy = {};
  std::optional<std::string> precision = {};  ///< absent: what amp_level says, else 32-true
  std::optional<std::string> amp_backend = {};
  std::optional<std::string> amp_level = {};  ///< O0, O1, O2, O3: apex' levels
  std::optional<bool> use_amp = {};
  std::optional<MatmulPrecision> float32_matmul_precision = {};  ///< absent: LibTorch's
  bool channels_last = false;                                    ///< weights and inputs of four dimensions
  std::optional<bool> benchmark = {};
  Deterministic deterministic = {};
  bool sync_batchnorm = false;

  // How long.
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

  // What people look at.
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
  std::string name;  ///< a data module by name; empty: the one that the model brings
  std::string path;
  std::optional<std::int64_t> batch_size = {};  ///< samples per rank and micro-batch; absent: the model's own
  int num_workers = 0;
  int prefetch_factor = 2;
  Uneven uneven = Uneven::pad;              ///< when the ranks do not divide the samples
  bool fingerprint = true;                  ///< checkpoints keep one of the training data, and ask for it
  std::map<std::string, std::string> args;  ///< what the data module defines itself

  bool operator==(const DataOptions&) const = default;
};

/// A component chosen by name, with the arguments that it defines itself (checked against its own option
/// list).
struct NamedOptions {
  std::string name;
  std::map<std::string, std::string> args;

  bool operator==(const NamedOptions&) const = default;
};

/// Arguments of the strategy, as the user types them: of the one that `trainer.strategy` names, or of the one
/// that the plan chooses where none is named.
struct StrategyOptions {
  /// `--strategy.ARG`; refused where the strategy has no such one.
  std::map<std::string, std::string> args = {};
  /// `--ddp.ARG`, an older name of the same; ignored, with a warning, where the strategy has no such one.
  /// What stands in both counts as in `args`.
  std::map<std::string, std::string> ddp_args = {};

  bool operator==(const StrategyOptions&) const = default;
};

/// Where the model's parameters and buffers come from at the start (checkpoint/load_weights.h).
struct WeightsOptions {
  std::string path;    ///< of a file or a checkpoint's folder; empty: what the model's constructor makes
  std::string map;     ///< "FROM=TO[,FROM=TO...]": prefixes of stored names, and what stands for them
  std::string prefix;  ///< only stored tensors whose names begin so; empty: all
  bool strict = true;  ///< refuse weights that do not fit as a whole

  bool operator==(const WeightsOptions&) const = default;
};

/// What a batch job asks Slurm for, in sbatch's words; empty: nothing.
struct BatchJobOptions {
  int nodes = 1;
  std::optional<int> gpus_per_node = {};    ///< and as many ranks; absent: ranks on the CPU
  std::optional<int> ntasks_per_node = {};  ///< ranks; absent: one for each GPU, else one
  std::optional<int> cpus_per_task = {};
  std::string time = "01:00:00";
  std::string signal = "USR1@120";  ///< which signal a job gets, so many seconds before its time is over
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
  std::vector<NamedOptions> callbacks;  ///< each of another name
  std::vector<NamedOptions> loggers;    ///< the same, besides the files that `logger` means
  StrategyOptions strategy;
  /// Arguments of the ModelCheckpoint that a fit has by itself.
  NamedOptions checkpoint{"model_checkpoint", {}};
  std::optional<std::string> ckpt_path = {};  ///< last, best, auto, or a checkpoint's folder; absent: none
  int max_restarts = 0;                       ///< how often a fit that fails is started again
  int min_ranks = 0;  ///< then a rank that fails again and again is left out while so many remain; 0: never
  std::optional<std::uint64_t> seed = {};
  std::vector<std::string> plugins;
  double timeout_seconds = 1800;  ///< how long a collective may take before the job is ended
  bool quiet = false;             ///< warnings and errors only on the console

  BatchJobOptions batch_job;  ///< of slurm-script

  // plan, info and doctor
  bool json = false;
  bool all = false;            ///< doctor: list what is in order, too
  std::string hardware_file;   ///< plan: the hardware to plan for; empty: this machine
  bool show_hardware = false;  ///< info: print the hardware only
  std::optional<int> plan_ranks = {};
  std::optional<int> plan_ranks_per_node = {};

  bool operator==(const Options&) const = default;
};

}  // namespace cxtrain
