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
  add({"nodes", "number of nodes [1]"}, CXTRAIN_MEMBER(batch_job.nodes));
  add({"gpus_per_node", "GPUs per node, one rank for each"}, CXTRAIN_MEMBER(batch_job.gpus_per_node));
  add({"ntasks_per_node", "ranks per node [one per GPU, else 1]"}, CXTRAIN_MEMBER(batch_job.ntasks_per_node));
  add({"cpus_per_task", "cores per rank"}, CXTRAIN_MEMBER(batch_job.cpus_per_task));
  add({"time", "time limit of the job, in the format of sbatch [01:00:00]", "TIME"},
      CXTRAIN_MEMBER(batch_job.time));
  add({"signal",
       "signal on which ranks save, and seconds before the time limit at which Slurm sends it [USR1@120]",
       "SIGNAL@SECONDS"},
      CXTRAIN_MEMBER(batch_job.signal));
  add({"job_name", "name of the job [cxtrain]"}, CXTRAIN_MEMBER(batch_job.job_name));
  add({"partition", "partition of the job"}, CXTRAIN_MEMBER(batch_job.partition));
  add({"account", "account that is charged"}, CXTRAIN_MEMBER(batch_job.account));
  add({"qos", "quality of service of the job"}, CXTRAIN_MEMBER(batch_job.qos));
  add({"constraint", "features that the nodes must have"}, CXTRAIN_MEMBER(batch_job.constraint));
  add({"mem", "memory per node, in the format of sbatch", "SIZE"}, CXTRAIN_MEMBER(batch_job.mem));
  add({"array", "job array: one training per index, such as 0-9", "INDICES"},
      CXTRAIN_MEMBER(batch_job.array));
  add({"submit", "submit the job, and print its output until it ends"}, CXTRAIN_MEMBER(batch_job.submit));
}

}  // namespace cxtrain
