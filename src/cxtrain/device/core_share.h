#pragma once

#include <span>
#include <string>
#include <vector>

/// How the ranks of a node share its cores, and to which memory these cores belong.
namespace cxtrain {

/// The cores that this process may run on, by their numbers: the mask that mpirun or Slurm bound it to.
std::vector<int> cores_of_mask();

/// Returns the number of the machine's cores that are online; 0: the system does not say it.
int online_cores();

/// The machine whose cores these are: equal for all processes of a machine, whatever node, container or
/// emulated node they take themselves to be on. Empty where the system does not say it.
std::string machine_id();

/// The nodes of memory (NUMA) that these cores belong to, in ascending order; empty where the system does not
/// say it. `folder`: where the system lists them.
std::vector<int> numa_nodes_of(std::span<const int> cores,
                               const std::string& folder = "/sys/devices/system/node");

/// The cores that each rank of a node has for itself, at least 1: a core is divided among the ranks whose
/// mask has it. Four unbound ranks on 16 cores have 4 each, and so have four of which mpirun bound two each
/// to a socket of 8. `masks`: those of the node's ranks.
std::vector<int> core_shares(std::span<const std::vector<int>> masks);
/// The same, with parts of cores: three ranks on one core have a third each.
std::vector<double> exact_core_shares(std::span<const std::vector<int>> masks);

/// Returns how many ranks lack a core of their own, if each core of a mask runs one rank at a time and the
/// ranks are spread as well as their masks allow.
int ranks_without_core(std::span<const std::vector<int>> masks);

/// A warning for a rank that has fewer cores than busy threads: the loop, its data workers, and on a GPU the
/// thread that feeds NCCL and autograd. Empty if the rank has enough. `bound`: whether the rank may use a
/// part of the machine's cores only.
std::string too_few_cores(int rank, int cores, bool bound, int data_workers, bool on_gpu);

}  // namespace cxtrain
