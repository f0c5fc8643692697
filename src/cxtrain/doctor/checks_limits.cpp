#include <algorithm>

#include "cxtrain/doctor/check_support.h"

/// What the system allows a process.
namespace cxtrain::doctor {
namespace {

/// Files. A rank has about 100 open, and one for each connection and each part of the data; the usual 1,024
/// are used up by 500 ranks' connections.
constexpr std::int64_t kOpenFiles = 4096, kOpenFilesAlone = 512;
/// InfiniBand's buffers are locked, some MB for each connection.
constexpr std::int64_t kLockedForInfiniband = kGiB;
/// What threads get as their stack; LibTorch's recursions need a part of the usual 8 MiB.
constexpr std::int64_t kStack = 2 * kMiB;
/// Private memory of a process with a model of any size.
constexpr std::int64_t kData = 4 * kGiB;

constexpr std::int64_t kUnlimited = -1;

using LimitOf = std::optional<std::int64_t> RankFacts::*;

/// Ranks whose limit is below `least`.
FindingsCollector ranks_below(const Recording& world, LimitOf limit, std::int64_t least,
                              const std::string& name) {
  FindingsCollector collector;
  for (const RankFacts& rank : world.ranks) {
    const auto& value = rank.*limit;
    if (!value) continue;
    const std::string most =
        limit == &RankFacts::open_files ? std::to_string(*value) : bytes_text(static_cast<double>(*value));
    collector.judge(*value != kUnlimited && *value < least, "at most " + most + " of " + name, rank);
  }
  return collector;
}

Findings find_few_files(const Recording& world) {
  const std::int64_t least = world_size(world) > 1 ? kOpenFiles : kOpenFilesAlone;
  return ranks_below(world, &RankFacts::open_files, least, "open files")
      .result(Severity::warning, "ulimit -n 65536 in the shell or batch script that starts the ranks",
              "the limit of open files");
}

/// A core is as large as the process; where it fits nowhere it fills the disk.
Findings find_core_dumps(const Recording& world) {
  FindingsCollector collector;
  std::vector<int> none;
  for (const RankFacts& rank : world.ranks) {
    const NodeFacts* node = node_of(world, rank.node);
    if (!rank.core_bytes) continue;
    if (*rank.core_bytes == 0) none.push_back(rank.rank);
    const std::int64_t room = node != nullptr && node->output ? node->output->free_bytes.value_or(-1) : -1;
    const bool fills_disk =
        *rank.core_bytes == kUnlimited && room >= 0 && node->memory_total && room < *node->memory_total / 2;
    collector.judge(fills_disk,
                    "core dumps of any size, and " + bytes_text(static_cast<double>(room)) + " free", rank);
  }
  if (!collector.any() && !none.empty())
    return note("no core dumps of " + ranks_text(none) + "; a crash leaves its stack in the rank's log",
                "ulimit -c unlimited, to look into a crash with gdb");
  return collector.result(Severity::warning, "ulimit -c 0", "the limit of core dumps");
}

Findings find_little_locked(const Recording& world) {
  const bool infiniband = std::ranges::any_of(
      world.nodes, [](const NodeFacts& node) { return node.infiniband && !node.infiniband->empty(); });
  if (!infiniband || !has_several_nodes(world)) return {};
  return ranks_below(world, &RankFacts::locked_bytes, kLockedForInfiniband, "locked memory")
      .result(Severity::warning,
              "ulimit -l unlimited, for Slurm's daemon as well (LimitMEMLOCK=infinity in its unit)",
              "the limit of locked memory");
}

Findings find_little_stack(const Recording& world) {
  return ranks_below(world, &RankFacts::stack_bytes, kStack, "stack")
      .result(Severity::warning, "ulimit -s 8192", "the limit of the stack");
}

Findings find_little_data(const Recording& world) {
  return ranks_below(world, &RankFacts::data_bytes, kData, "private memory")
      .result(Severity::warning, "ulimit -d unlimited", "the limit of private memory");
}

}  // namespace

std::vector<Check> limit_checks() {
  return {
      {"limits.files", "Few open files are allowed",
       "Connections to other ranks and files of data take one each, and fail beyond the limit.",
       find_few_files},
      {"limits.core", "Core dumps", "A core dump has the size of the process, and may fill the disk.",
       find_core_dumps},
      {"limits.locked", "Little memory may be locked", "InfiniBand's buffers have to be locked in memory.",
       find_little_locked},
      {"limits.stack", "The stack is small", "Threads that recurse deeply crash.", find_little_stack},
      {"limits.data", "Private memory is limited", "An allocation beyond the limit fails, and ends the rank.",
       find_little_data},
  };
}

}  // namespace cxtrain::doctor
