#include <algorithm>

#include "cxtrain/doctor/check_support.h"

/// Main memory, and the part of it that ranks share.
namespace cxtrain::doctor {
namespace {

/// Of /dev/shm, for each rank of a node: NCCL takes about 10 MB for each pair of ranks, Open MPI 4 MiB and
/// more for each rank. Docker gives a container 64 MiB in all.
constexpr std::int64_t kShmOfRank = 64 * kMiB, kLeastShmOfRank = 8 * kMiB;
/// Main memory for each rank: a process with LibTorch takes 0.2 GB, one with CUDA 3 GB before the model.
constexpr std::int64_t kMemoryOfRank = kGiB, kLeastMemoryOfRank = 256 * kMiB;
/// Swap in use below this is what a machine put aside that nobody reads.
constexpr std::int64_t kSwapInUse = kGiB;
constexpr double kSwapPart = 0.1;

std::int64_t rank_count(const Recording& world, const NodeFacts& node) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(ranks_of(world, node.node).size()));
}

std::string in_bytes(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

Findings find_little_shm(const Recording& world) {
  FindingsCollector little, full;
  for (const NodeFacts& node : world.nodes) {
    const std::int64_t ranks = rank_count(world, node);
    if (!node.shm_free) continue;
    const std::string words = "/dev/shm has " + in_bytes(*node.shm_free) + " free" +
                              (node.shm_size ? " of " + in_bytes(*node.shm_size) : "") + " for " +
                              std::to_string(ranks) + " ranks";
    if (ranks > 1 && *node.shm_free < kLeastShmOfRank * ranks)
      full.wrong(words, node);
    else if (ranks > 1 && *node.shm_free < kShmOfRank * ranks)
      little.wrong(words, node);
    else
      little.fine();
  }
  const std::string fix = "docker run --shm-size=8g or --ipc=host; remove left-over files in /dev/shm";
  if (full.any()) return full.result(Severity::error, fix, "");
  return little.result(Severity::warning, fix, "the size of /dev/shm");
}

Findings find_unmapped_memory(const Recording& world) {
  FindingsCollector collector;
  bool has_neighbours = false;
  for (const RankFacts& rank : world.ranks) {
    if (ranks_of(world, rank.node).size() < 2) continue;
    has_neighbours = true;
    if (!rank.maps_memory_of_others) continue;
    collector.judge(!*rank.maps_memory_of_others, "may not map memory of another rank of its node", rank);
  }
  if (!has_neighbours) return {};
  return collector.result(Severity::warning,
                          "run the ranks as one user and in one container, with one view of /proc (docker "
                          "--pid=host, --cap-add SYS_PTRACE; hidepid, yama)",
                          "whether ranks may map each other's memory");
}

Findings find_little_memory(const Recording& world) {
  FindingsCollector little, none;
  for (const NodeFacts& node : world.nodes) {
    if (!node.memory_available) continue;
    const std::int64_t ranks = rank_count(world, node), of_rank = *node.memory_available / ranks;
    const std::string words =
        in_bytes(*node.memory_available) + " available for " + std::to_string(ranks) + " ranks";
    if (of_rank < kLeastMemoryOfRank)
      none.wrong(words, node);
    else if (of_rank < kMemoryOfRank)
      little.wrong(words, node);
    else
      little.fine();
  }
  const std::string fix = "start fewer ranks on the node, or ask for more memory (sbatch --mem)";
  if (none.any()) return none.result(Severity::error, fix, "");
  return little.result(Severity::warning, fix, "the memory that is available");
}

Findings find_low_limit(const Recording& world) {
  FindingsCollector collector;
  std::string much_lower;
  for (const NodeFacts& node : world.nodes) {
    if (!node.memory_limit) {
      if (node.memory_total) collector.fine();
      continue;
    }
    const std::int64_t ranks = rank_count(world, node);
    const std::string words = "the control group is limited to " + in_bytes(*node.memory_limit) + ", for " +
                              std::to_string(ranks) + " ranks";
    collector.judge(*node.memory_limit / ranks < kMemoryOfRank ? words : "", node);
    if (node.memory_total && *node.memory_limit < *node.memory_total / 2) much_lower = words;
  }
  const std::string fix = "sbatch --mem=0 (all of the node) or --mem-per-cpu; docker run --memory";
  if (!collector.any() && !much_lower.empty()) return note(much_lower, fix);
  return collector.result(Severity::warning, fix, "the limits of memory");
}

Findings find_swap(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (!node.swap_total || !node.swap_used) continue;
    const bool much = *node.swap_used > kSwapInUse && static_cast<double>(*node.swap_used) >
                                                          kSwapPart * static_cast<double>(*node.swap_total);
    collector.judge(much ? in_bytes(*node.swap_used) + " swapped out" : "", node);
  }
  return collector.result(Severity::warning, "end other processes that take memory there; start fewer ranks",
                          "the swap in use");
}

}  // namespace

std::vector<Check> memory_checks() {
  return {
      {"shm.small", "/dev/shm is small or full",
       "NCCL and MPI exchange messages of a node's ranks there, and end with a bus error when it is full.",
       find_little_shm, has_several_ranks},
      {"shm.mapping", "Ranks of a node may not map each other's memory",
       "Messages between them are then copied twice.", find_unmapped_memory, has_several_ranks},
      {"memory.available", "Little memory is available", "The kernel ends a rank when there is none.",
       find_little_memory},
      {"memory.limit", "The control group's limit is low",
       "The kernel ends a rank at that limit, whatever the machine has.", find_low_limit},
      {"memory.swap", "Memory is swapped out", "Swapped memory is read back from a disk, during a step.",
       find_swap},
  };
}

}  // namespace cxtrain::doctor
