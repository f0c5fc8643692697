#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_device_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Devices and strategy", text, get));
  };
  add({"trainer.accelerator", "kind of device to train on", "auto|cpu|gpu"},
      CXTRAIN_MEMBER(trainer.accelerator));
  add({"trainer.devices", "devices per node: a count, a list (0,2), -1 or auto", "LIST",
       "-1 and auto: all GPUs. Under mpirun or srun the launcher decides the number of ranks, and this "
       "option must agree."},
      CXTRAIN_MEMBER(trainer.devices));
  add({"trainer.gpus", "like --devices, for GPUs only; 0: train on the CPU", "LIST"},
      CXTRAIN_MEMBER(trainer.gpus));
  add({"trainer.num_processes", "CPU ranks per node"}, CXTRAIN_MEMBER(trainer.num_processes));
  add({"trainer.auto_select_gpus", "choose unused GPUs if --devices is a count"},
      CXTRAIN_MEMBER(trainer.auto_select_gpus));
  add({"trainer.devices_per_rank", "devices of each rank, for a model that is split over them"},
      CXTRAIN_MEMBER(trainer.devices_per_rank));
  add({"trainer.num_nodes", "number of nodes; must equal the number that mpirun or srun started"},
      CXTRAIN_MEMBER(trainer.num_nodes));
  add({"trainer.strategy", "single, ddp, ddp_spawn, dp, or a plugin's name", "NAME",
       "single: one rank. ddp: one rank per device, gradients averaged. ddp_spawn: ddp on one machine, "
       "without mpirun. dp: one rank with several devices. --strategy.ARG sets an argument of the strategy."},
      CXTRAIN_MEMBER(trainer.strategy));
  add({"trainer.precision", "32-true, 16-mixed, bf16-mixed, 16-true, ...", "NAME",
       "All: 16-mixed, bf16-mixed, 32-true, 64-true, 16-true, bf16-true. Short: 16 is 16-mixed, bf16 is "
       "bf16-mixed, 32 and 64 are the true ones."},
      CXTRAIN_MEMBER(trainer.precision));
  add({"trainer.amp_level",
       "level of apex: O1 is 16-mixed; O2 adds 16-bit weights with float32 master weights", "O0|O1|O2|O3"},
      CXTRAIN_MEMBER(trainer.amp_level));
  add({"trainer.amp_backend", "both do the same; apex with precision 16 and no level means O2",
       "native|apex"},
      CXTRAIN_MEMBER(trainer.amp_backend));
  add({"trainer.use_amp", "true: precision 16-mixed; false: no mixed precision, even with --amp_level"},
      CXTRAIN_MEMBER(trainer.use_amp));
  add({"trainer.float32_matmul_precision",
       "high, medium: GPUs may multiply float32 matrices as TF32 or bfloat16"},
      CXTRAIN_MEMBER(trainer.float32_matmul_precision));
  add({"trainer.channels_last", "store images and convolution weights with channels last", nullptr,
       "Often faster, above all in 16 bits."},
      CXTRAIN_MEMBER(trainer.channels_last));
  add({"trainer.benchmark", "let cuDNN measure and choose its fastest kernels"},
      CXTRAIN_MEMBER(trainer.benchmark));
  add({"trainer.deterministic", "use only algorithms that repeat bit for bit", nullptr,
       "warn: warn about an operation that has no such algorithm, instead of an error."},
      CXTRAIN_MEMBER(trainer.deterministic));
  add({"trainer.sync_batchnorm", "compute batch norm over the batches of all ranks"},
      CXTRAIN_MEMBER(trainer.sync_batchnorm));
}

}  // namespace cxtrain
