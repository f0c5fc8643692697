#include "cxtrain/cluster/slurm_allocation.h"

#include "support/catch.h"

namespace cxtrain::test {
namespace {

using Environment = std::map<std::string, std::string>;

TEST_CASE("the environment of a Slurm job says how many nodes, tasks and cores it has") {
  const auto job = slurm_allocation({{"SLURM_JOB_ID", "17"},
                                     {"SLURM_JOB_NUM_NODES", "3"},
                                     {"SLURM_NTASKS_PER_NODE", "4"},
                                     {"SLURM_JOB_CPUS_PER_NODE", "72(x2),36"},
                                     {"SLURMD_NODENAME", "n1"}});
  REQUIRE(job);
  CHECK(job->job == "17");
  CHECK(job->nodes == 3);
  CHECK(job->tasks_per_node == 4);
  CHECK(job->cpus_per_node == 36);
  CHECK(job->is_here);
}

TEST_CASE("what the environment of a Slurm job does not say is not known") {
  CHECK_FALSE(slurm_allocation({}));
  for (const char* job : {"", "null", "17x", "-1"}) CHECK_FALSE(slurm_allocation({{"SLURM_JOB_ID", job}}));
  const auto job = slurm_allocation({{"SLURM_JOB_ID", "17"}});
  REQUIRE(job);
  CHECK(job->nodes == 1);
  CHECK(job->tasks_per_node == 0);
  CHECK(job->cpus_per_node == 0);
  CHECK_FALSE(job->is_here);
}

TEST_CASE("tasks of a whole job are its nodes' where they can be divided among them") {
  const auto tasks = [](const char* all) {
    return slurm_allocation({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NTASKS", all}})
        ->tasks_per_node;
  };
  CHECK(tasks("8") == 4);
  CHECK(tasks("7") == 0);
  CHECK(tasks("many") == 0);
  CHECK(tasks("-4") == 0);
  CHECK(tasks("99999999999999999999") == 0);
}

TEST_CASE("a list of cores that is no list is none") {
  const auto cores = [](const char* list) {
    return slurm_allocation({{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_CPUS_PER_NODE", list}})->cpus_per_node;
  };
  CHECK(cores("8") == 8);
  CHECK(cores("8(x10000)") == 8);
  CHECK(cores("4,8(x2),2(x3)") == 2);
  CHECK(cores("") == 0);
  CHECK(cores(",") == 0);
  CHECK(cores("x") == 0);
}

}  // namespace
}  // namespace cxtrain::test
