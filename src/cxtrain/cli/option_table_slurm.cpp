#include "cxtrain/cli/option_binding.h"
#include "cxtrain/cli/slurm_script.h"

namespace cxtrain {

void add_batch_job_options(OptionTable& table) {
  const auto add = [&](const OptionText& text, auto get) {
    OptionEntry entry = bind_option("Batch job", text, get);
    entry.commands = kSlurmScript;
    entry.saved = false;
    table.push_back(std::move(entry));
  };
  add({"nodes", "nodes of the job [1]"}, CXTRAIN_MEMBER(batch_job.nodes));
  add({"gpus_per_node", "GPUs of each node, with a rank for each"}, CXTRAIN_MEMBER(batch_job.gpus_per_node));
  add({"ntasks_per_node", "ranks on each node [one for each GPU, else 1]"},
      CXTRAIN_MEMBER(batch_job.ntasks_per_node));
  add({"cpus_per_task", "cores of each rank"}, CXTRAIN_MEMBER(batch_job.cpus_per_task));
  add({"time", "how long the job may run, as sbatch reads it [01:00:00]", "TIME"},
      CXTRAIN_MEMBER(batch_job.time));
  add({"signal", "the signal by which ranks save, and how many seconds before the time is over [USR1@120]",
       "SIGNAL@SECONDS"},
      CXTRAIN_MEMBER(batch_job.signal));
  add({"job_name", "the job's name [cxtrain]"}, CXTRAIN_MEMBER(batch_job.job_name));
  add({"partition", "where it runs"}, CXTRAIN_MEMBER(batch_job.partition));
  add({"account", "who pays for it"}, CXTRAIN_MEMBER(batch_job.account));
  add({"qos", "its quality of service"}, CXTRAIN_MEMBER(batch_job.qos));
  add({"constraint", "features that its nodes must have"}, CXTRAIN_MEMBER(batch_job.constraint));
  add({"mem", "memory of each node, as sbatch reads it", "SIZE"}, CXTRAIN_MEMBER(batch_job.mem));
  add({"array", "a job array: one training for each index", "INDICES"}, CXTRAIN_MEMBER(batch_job.array));
  add({"submit", "submit the job, and follow its output until it ends"}, CXTRAIN_MEMBER(batch_job.submit));
}

}  // namespace cxtrain
