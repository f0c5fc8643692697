#pragma once

#include <span>
#include <string>

#include "cxtrain/base/each_field.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {

/// Where a rank runs, in words; "-" where there is nothing.
struct RankPlace {
  int rank = 0;
  std::string host;
  std::string cores;  ///< that it may run on, "0-3"
  std::string numa;   ///< the nodes of memory that these cores belong to, "0"
  std::string gpus;   ///< their numbers on the machine, "0,1"
  std::string uuids;  ///< of these GPUs

  void fields(auto&& field) { CXTRAIN_EACH(field, rank, host, cores, numa, gpus, uuids); }
};

/// Lines for the ranks below a heading, in columns; ranks in a row that differ in nothing else share one
/// ("4-7").
std::string rank_table(std::span<const RankPlace> places);

/// The table of all ranks, at the root; empty on the others. Collective.
std::string gather_rank_table(World& world, const Plan& plan);

}  // namespace cxtrain
