#include "cxtrain/trainer/rank_table.h"

#include <vector>

#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/device/core_share.h"

namespace cxtrain {
namespace {

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

bool same_but_for_rank(const RankPlace& a, const RankPlace& b) {
  return a.host == b.host && a.cores == b.cores && a.numa == b.numa && a.gpus == b.gpus && a.uuids == b.uuids;
}

RankPlace own_place(const WorldFacts& facts, const RankPlan& rank) {
  const std::vector<int> cores = cores_of_mask();
  return {.rank = facts.rank,
          .host = facts.hostname,
          .cores = or_dash(format_ranges(cores)),
          .numa = or_dash(format_ranges(numa_nodes_of(cores))),
          .gpus = or_dash(joined(rank.gpus, ",", [](int gpu) { return std::to_string(gpu); })),
          .uuids = or_dash(joined(rank.uuids, ","))};
}

}  // namespace

std::string rank_table(std::span<const RankPlace> places) {
  std::vector<std::vector<std::string>> rows{{"rank", "host", "cores", "NUMA", "GPU", "UUID"}};
  for (std::size_t i = 0; i < places.size();) {
    const RankPlace& first = places[i];
    std::size_t last = i;
    while (last + 1 < places.size() && places[last + 1].rank == places[last].rank + 1 &&
           same_but_for_rank(first, places[last + 1]))
      ++last;
    const std::string ranks =
        std::to_string(first.rank) + (last > i ? "-" + std::to_string(places[last].rank) : "");
    rows.push_back({ranks, first.host, first.cores, first.numa, first.gpus, first.uuids});
    i = last + 1;
  }
  std::string table = aligned(rows, [](std::size_t) { return false; });
  table.pop_back();
  return table;
}

std::string gather_rank_table(World& world, const Plan& plan) {
  const RankPlan& own = plan.ranks.at(static_cast<std::size_t>(world.rank()));
  const std::vector<RankPlace> places = gather_values_on_root(world, own_place(world.facts(), own));
  return places.empty() ? std::string() : rank_table(places);
}

}  // namespace cxtrain
