#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/doctor/check_support.h"

/// How many threads a rank computes with.
namespace cxtrain::doctor {
namespace {

/// From so many cores on, a single thread leaves most of what a rank has unused.
constexpr int kManyCores = 4;

struct ThreadedRank {
  const RankFacts* facts;
  int cores;                   ///< its share of its node's
  std::optional<int> threads;  ///< OMP_NUM_THREADS
};

std::optional<int> omp_threads(const RankFacts& rank) {
  const std::string value = variable(rank, "OMP_NUM_THREADS").value_or("");
  std::string_view text = value;
  const int threads = take_number(text);
  return threads < 0 ? std::nullopt : std::optional(threads);
}

std::vector<ThreadedRank> threaded_ranks(const Recording& world) {
  std::vector<ThreadedRank> result;
  for (const NodeFacts& node : world.nodes) {
    std::vector<std::vector<int>> masks;
    std::vector<const RankFacts*> ranks;
    for (const RankFacts* rank : ranks_of(world, node.node)) {
      if (rank->cores.empty() || !rank->environment) continue;
      ranks.push_back(rank);
      masks.push_back(parse_ranges(rank->cores));
    }
    const std::vector<int> shares = core_shares(masks);
    for (std::size_t i = 0; i < ranks.size(); ++i)
      result.push_back({ranks[i], shares[i], omp_threads(*ranks[i])});
  }
  return result;
}

std::string threads_and_cores(const ThreadedRank& rank) {
  return "OMP_NUM_THREADS=" + std::to_string(*rank.threads) + " with " + counted(rank.cores, "core");
}

Findings find_many_threads(const Recording& world) {
  FindingsCollector collector;
  for (const ThreadedRank& rank : threaded_ranks(world)) {
    collector.judge(rank.threads && *rank.threads > rank.cores ? threads_and_cores(rank) : "", *rank.facts);
  }
  return collector.result(Severity::warning,
                          "unset OMP_NUM_THREADS, and each rank takes as many threads as it has cores",
                          "the ranks' cores and OMP_NUM_THREADS");
}

Findings find_one_thread(const Recording& world) {
  if (uses_gpus(world)) return {};
  FindingsCollector collector;
  for (const ThreadedRank& rank : threaded_ranks(world)) {
    collector.judge(
        rank.threads && *rank.threads == 1 && rank.cores >= kManyCores ? threads_and_cores(rank) : "",
        *rank.facts);
  }
  return collector.result(Severity::warning, "unset OMP_NUM_THREADS, or start a rank for each core",
                          "the ranks' cores and OMP_NUM_THREADS");
}

Findings find_unlike_threads(const Recording& world) {
  std::map<std::string, std::vector<int>> ranks;
  for (const RankFacts& rank : world.ranks) {
    if (rank.environment) ranks[variable(rank, "OMP_NUM_THREADS").value_or("(unset)")].push_back(rank.rank);
  }
  return unlike(Severity::note, "OMP_NUM_THREADS differs: ", ranks, "set it alike, or leave it out",
                "OMP_NUM_THREADS");
}

}  // namespace

std::vector<Check> thread_checks() {
  return {
      {"threads.many", "A rank has more OpenMP threads than cores",
       "Threads that outnumber cores wait for each other at the end of every parallel loop.",
       find_many_threads},
      {"threads.one", "A rank computes with one thread on many cores",
       "LibTorch's operators on the CPU run on one core while the other cores idle.", find_one_thread},
      {"threads.differ", "OMP_NUM_THREADS differs between ranks",
       "Sums are divided among threads, and so ranks of unequal threads differ in speed and last bits.",
       find_unlike_threads},
  };
}

}  // namespace cxtrain::doctor
