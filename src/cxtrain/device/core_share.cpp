#include "cxtrain/device/core_share.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "cxtrain/base/kernel_files.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// Beyond what any machine has.
constexpr int kMaxCores = 1 << 16;

}  // namespace

std::vector<int> cores_of_mask() {
  // A set of fixed size fails on machines beyond 1,024 cores; the kernel says by an error that it needs a
  // larger one.
  for (int room = CPU_SETSIZE; room <= kMaxCores; room *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(static_cast<std::size_t>(room)));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cores;
    for (int core = 0; core < room; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) cores.push_back(core);
    }
    return cores;
  }
  std::vector<int> all(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string machine_id() { return kernel_text("/proc/sys/kernel/random/boot_id"); }

std::vector<int> numa_nodes_of(std::span<const int> cores, const std::string& folder) {
  std::vector<int> nodes;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    constexpr std::string_view kNode = "node";
    if (!name.starts_with(kNode) || name.find_first_not_of("0123456789", kNode.size()) != std::string::npos)
      continue;
    const std::vector<int> of_node = parse_ranges(kernel_text(entry.path() / "cpulist"));
    const auto is_its = [&](int core) { return std::ranges::find(of_node, core) != of_node.end(); };
    if (std::ranges::any_of(cores, is_its)) nodes.push_back(std::atoi(name.c_str() + kNode.size()));
  }
  std::ranges::sort(nodes);
  return nodes;
}

std::vector<double> exact_core_shares(std::span<const std::vector<int>> masks) {
  std::map<int, int> ranks_of_core;
  for (const std::vector<int>& mask : masks) {
    for (const int core : mask) ++ranks_of_core[core];
  }
  std::vector<double> shares;
  for (const std::vector<int>& mask : masks) {
    double share = 0;
    for (const int core : mask) share += 1.0 / ranks_of_core[core];
    shares.push_back(share);
  }
  return shares;
}

std::vector<int> core_shares(std::span<const std::vector<int>> masks) {
  std::vector<int> shares;
  for (const double share : exact_core_shares(masks)) {
    constexpr double kRounding = 1e-6;  // three thirds are a core
    shares.push_back(std::max(1, static_cast<int>(share + kRounding)));
  }
  return shares;
}

int online_cores() { return std::max(0, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))); }

int ranks_without_core(std::span<const std::vector<int>> masks) {
  // Augmenting paths (Kuhn): a rank takes a core of its mask if the core's rank can take another one.
  std::map<int, std::size_t> rank_on;
  std::set<int> tried;
  const std::function<bool(std::size_t)> finds_core = [&](std::size_t rank) {
    for (const int core : masks[rank]) {
      if (!tried.insert(core).second) continue;
      const auto taken = rank_on.find(core);
      if (taken != rank_on.end() && !finds_core(taken->second)) continue;
      rank_on[core] = rank;
      return true;
    }
    return false;
  };
  int without = 0;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    tried.clear();
    if (!finds_core(rank)) ++without;
  }
  return without;
}

std::string too_few_cores(int rank, int cores, bool bound, int data_workers, bool on_gpu) {
  const int needed = 1 + data_workers + (on_gpu ? 1 : 0);
  if (cores >= needed) return {};
  std::string what = "the loop";
  if (data_workers > 0)
    what += ", " + std::to_string(data_workers) + (data_workers == 1 ? " data worker" : " data workers");
  if (on_gpu) what += ", what feeds the GPU";
  return "rank " + std::to_string(rank) + " has " + counted(cores, "core") + " and keeps " +
         std::to_string(needed) + " busy (" + what + "): steps will wait for a core. " +
         (bound ? "The rank is bound to its cores: give mpirun --bind-to none, or srun --cpus-per-task " +
                      std::to_string(needed)
                : std::string("The ranks of this machine share all of its cores: start fewer ranks")) +
         (data_workers > 0 ? ", or use fewer --data.num_workers" : "");
}

}  // namespace cxtrain
