#include "cxtrain/cli/option_binding.h"

namespace cxtrain {

void add_device_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    table.push_back(bind_option("Devices and strategy", text, get));
  };
  add({"trainer.accelerator", "what to train on", "auto|cpu|gpu"}, CXTRAIN_MEMBER(trainer.accelerator));
  add({"trainer.devices", "devices per node: a count, a list (0,2), -1 for all, auto", "LIST"},
      CXTRAIN_MEMBER(trainer.devices));
  add({"trainer.gpus", "the same, and GPUs are meant; 0 trains on the CPU", "LIST"},
      CXTRAIN_MEMBER(trainer.gpus));
  add({"trainer.num_processes", "processes on the CPU"}, CXTRAIN_MEMBER(trainer.num_processes));
  add({"trainer.auto_select_gpus", "a count of GPUs picks free ones"},
      CXTRAIN_MEMBER(trainer.auto_select_gpus));
  add({"trainer.devices_per_rank", "consecutive devices of each rank, for models split over them"},
      CXTRAIN_MEMBER(trainer.devices_per_rank));
  add({"trainer.num_nodes", "nodes; must agree with mpirun or srun"}, CXTRAIN_MEMBER(trainer.num_nodes));
  add({"trainer.strategy", "single, ddp, ddp_spawn, dp, or a plugin's; --strategy.ARG sets its arguments",
       "NAME"},
      CXTRAIN_MEMBER(trainer.strategy));
  add({"trainer.precision",
       "16-mixed, bf16-mixed, 32-true, 64-true, 16-true, bf16-true; short 16, bf16, 32, 64", "NAME"},
      CXTRAIN_MEMBER(trainer.precision));
  add({"trainer.amp_level", "apex' levels: O1 is 16-mixed, O2 adds half weights with float32 master weights",
       "O0|O1|O2|O3"},
      CXTRAIN_MEMBER(trainer.amp_level));
  add({"trainer.amp_backend", "either does the same; with precision 16 apex without a level means O2",
       "native|apex"},
      CXTRAIN_MEMBER(trainer.amp_backend));
  add({"trainer.use_amp", "true: precision 16-mixed; false: none, whatever amp_level says"},
      CXTRAIN_MEMBER(trainer.use_amp));
  add({"trainer.float32_matmul_precision", "high and medium let GPUs multiply float32 as TF32 or bfloat16"},
      CXTRAIN_MEMBER(trainer.float32_matmul_precision));
  add({"trainer.channels_last",
       "images and convolutions' weights with the channels last in memory: often faster, above all in 16 "
       "bits"},
      CXTRAIN_MEMBER(trainer.channels_last));
  add({"trainer.benchmark", "let cuDNN measure which of its kernels is fastest"},
      CXTRAIN_MEMBER(trainer.benchmark));
  add({"trainer.deterministic",
       "only algorithms that give the same bits each time; warn: say where there is none"},
      CXTRAIN_MEMBER(trainer.deterministic));
  add({"trainer.sync_batchnorm", "batch norm over the batches of all ranks"},
      CXTRAIN_MEMBER(trainer.sync_batchnorm));
}

}  // namespace cxtrain
