#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"
#include "schedule.h"

namespace cxtrain {

template <>
struct ChoiceOf<Schedule> {
  static constexpr std::array<std::string_view, 4> words{"gpipe", "1f1b", "interleaved", "zb1p"};
};

/// The arguments of `pipeline`, as `--strategy.stages 2`.
struct PipelineArgs {
  std::int64_t stages = 0;  ///< 0: as many as ranks
  Schedule schedule = Schedule::one_forward_one_backward;
  std::int64_t chunks = 2;  ///< used by `interleaved`
  std::vector<std::int64_t> layout;
  bool shard_optimizer = false;

  void fields(auto&& field) {
    field("stages", stages, "parts of the model, each on a rank of its own; 0: as many as ranks",
          Range::between(0, 1e6));
    field("schedule", schedule,
          "order of a stage's passes; --accumulate_grad_batches gives the micro-batches");
    field("chunks", chunks, "parts of the model on each rank, for the schedule interleaved",
          Range::between(1, 64));
    field("layout", layout, "number of blocks in each part, from the first on: 3,4,3; empty: by their cost",
          Range::between(1, 1e6));
    field("shard_optimizer", shard_optimizer, "ranks with the same stage divide the optimizer's state");
  }
};

}  // namespace cxtrain
