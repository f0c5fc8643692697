#pragma once

#include <array>

/// The strategies that run where none is asked for.
namespace cxtrain {

inline constexpr const char* kStrategyOfOneRank = "single";
inline constexpr const char* kStrategyOfSeveralRanks = "ddp";
inline constexpr const char* kStrategyOfSpawnedRanks = "ddp_spawn";

inline constexpr std::array kDefaultStrategies{kStrategyOfOneRank, kStrategyOfSeveralRanks,
                                               kStrategyOfSpawnedRanks};

}  // namespace cxtrain
