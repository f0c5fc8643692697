#include "cxtrain/cli/help_topics.h"

#include <array>
#include <vector>

#include "cxtrain/base/message_code.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {

std::span<const HelpTopic> help_topics() {
  static const std::array kTopics{
      HelpTopic{"components", "model, data, optimizer, learning rate schedule", "Model, data, optimizer"},
      HelpTopic{"devices", "devices, strategy, precision", "Devices and strategy"},
      HelpTopic{"length", "epochs, steps, batches, validation", "Length of training"},
      HelpTopic{"optimisation", "accumulation, clipping, searches before training", "Optimisation"},
      HelpTopic{"output", "folders, loggers, progress, checkpoints", "Output"},
      HelpTopic{"general", "seed, plugins, resuming, restarts, deadlines", "General"},
      HelpTopic{"batch-job", "options of slurm-script", "Batch job"},
      HelpTopic{"older", "older names of Lightning's options", "Other names of Lightning's"},
      HelpTopic{"launching", "how to start ranks: alone, mpirun, srun, a batch job", "", ways_to_launch},
      HelpTopic{"resuming", "how to continue a run that ended early", "", ways_to_resume},
      HelpTopic{"exit-status", "exit statuses, for batch scripts", "", exit_statuses},
      HelpTopic{"error-codes", "the codes at the end of error messages", "", error_codes},
      HelpTopic{"environment", "environment variables that the program reads or sets", "",
                environment_variables},
      HelpTopic{"doctor-checks", "what doctor checks, and why", ""},
      HelpTopic{"reference", "all of this as one page of Markdown", ""},
  };
  return kTopics;
}

std::span<const Meaning> exit_statuses() {
  static const std::array kStatuses{
      Meaning{"0", "done"},
      Meaning{"1",
              "any other failure; also: doctor found warnings, checkpoint diff found a difference, or the "
              "output of a printing subcommand could not be written"},
      Meaning{"2",
              "rejected before training: options, data, a plugin or a checkpoint; also: doctor found errors"},
      Meaning{"75",
              "stopped at a step with the state saved, so start the run again; causes: the requeue signal "
              "(SIGUSR1), SIGTERM, the end of the Slurm job, a callback"},
      Meaning{"93", "--max_restarts gave up after three failures without a newer checkpoint"},
      Meaning{"130",
              "stopped by SIGINT with all files written; after a second SIGINT files may be incomplete"},
      Meaning{"143",
              "stopped by one of the causes of 75 with nothing saved: in an evaluation, at the start, or "
              "without checkpoints"},
      Meaning{"126, 127, 137", "of the shell or mpirun: the program was not started, or a rank was killed"},
  };
  return kStatuses;
}

std::span<const Meaning> error_codes() {
  static const std::vector<Meaning> kCodes = transformed(message_kinds(), [](const MessageKind& kind) {
    return Meaning{std::string(kind.name), std::string(kind.meaning)};
  });
  return kCodes;
}

std::span<const Meaning> environment_variables() {
  static const std::array kVariables{
      Meaning{"CXTRAIN_PLUGIN_PATH", "folders with plugins, separated by colons; searched first"},
      Meaning{"CXTRAIN_DATA", "folder of the example data, if --data.path is not given"},
      Meaning{"OMP_NUM_THREADS", "threads of an operation; if unset, each rank uses its share of the cores"},
      Meaning{"CUDA_VISIBLE_DEVICES", "GPUs that exist for the program"},
      Meaning{"CUDA_DEVICE_ORDER", "set to PCI_BUS_ID, so that GPU numbers are those of nvidia-smi"},
      Meaning{"TMPDIR", "folder of temporary files of Open MPI, which doctor checks"},
      Meaning{"TERM", "dumb or unset: no progress bar, and no terminal width"},
      Meaning{"TORCH_SHOW_CPP_STACKTRACES", "1: errors of LibTorch contain their C++ stack"},
      Meaning{"OMPI_*, PMIX_*, PRTE_*", "of the launcher: rank, node, settings of Open MPI"},
      Meaning{"SLURM_*", "of the Slurm job: nodes, tasks, time limit, restarts"},
      Meaning{"PBS_*", "of the PBS job: its node file"},
      Meaning{
          "SLURM_PMIX_FENCE, SLURM_PMIX_DIRECT_CONN",
          "set for ranks that the program starts with srun; Slurm's default barrier may let ranks start too "
          "early"},
      Meaning{"NCCL_*", "read by NCCL; doctor reports values that cost speed"},
      Meaning{"CXTRAIN_STARTER, CXTRAIN_STARTED_BY_MPIRUN, CXTRAIN_SUPERVISOR, CXTRAIN_RESTARTER",
              "set by the program for the ranks that it starts; do not set them"},
  };
  return kVariables;
}

std::span<const Meaning> ways_to_launch() {
  static const std::array kWays{
      Meaning{"cxtrain_mpi", "one rank: on a GPU if there is one, else on all cores"},
      Meaning{"cxtrain_mpi --devices 4", "4 ranks on this machine; the program starts mpirun"},
      Meaning{"mpirun -np 4 --bind-to none cxtrain_mpi",
              "4 ranks; without --bind-to none each is bound to one core "
              "or socket"},
      Meaning{"srun --mpi=pmix --cpus-per-task=8 cxtrain_mpi",
              "the tasks of the Slurm job; the ranks need PMIx (export SLURM_PMIX_FENCE=ring)"},
      Meaning{"cxtrain_mpi slurm-script --nodes 2 --gpus-per-node 4 --submit",
              "a batch job that requeues itself and resumes"},
      Meaning{"cxtrain_mpi --strategy ddp_spawn --num_processes 4", "4 ranks on this machine without mpirun"},
  };
  return kWays;
}

std::span<const Meaning> ways_to_resume() {
  static const std::array kWays{
      Meaning{"--ckpt_path auto",
              "the newest complete checkpoint of the newest run, or a new run if no run has a "
              "checkpoint; for batch scripts"},
      Meaning{
          "--ckpt_path last",
          "the newest checkpoint of the newest run; an error if there is none, or if its files are damaged"},
      Meaning{"--ckpt_path best", "the checkpoint with the best monitored metric of the newest run"},
      Meaning{"--ckpt_path FOLDER", "this checkpoint, or the newest complete checkpoint of this run"},
      Meaning{"--max_restarts N", "restart failed ranks from the newest complete checkpoint, up to N times"},
      Meaning{"--model.weights PATH",
              "start a new run from these weights, without the state of the training"},
  };
  return kWays;
}

}  // namespace cxtrain
