#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "../ddp/replicated_args.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

/// The arguments of `zero`, as `--strategy.stage 2`.
namespace cxtrain {

/// Where parameters lie under stage 3. `mapped`: the CPU ranks of a node share one copy. `node` and `all`:
/// each rank of the node, or each rank, has a shard, and blocks of the model are gathered for their passes.
/// `automatic`: mapped if ranks share memory, else all.
enum class ParameterPlace { automatic, mapped, node, all };

template <>
struct ChoiceOf<ParameterPlace> {
  static constexpr std::array<std::string_view, 4> words{"auto", "mapped", "node", "all"};
};

/// Where the gradients of several micro-batches accumulate, from stage 2 on. `whole`: on each rank, with the
/// bits of `ddp`. `shards`: each micro-batch is averaged over the ranks, and ranks sum their shards.
enum class Accumulation { whole, shards };

template <>
struct ChoiceOf<Accumulation> {
  static constexpr std::array<std::string_view, 2> words{"whole", "shards"};
};

struct ZeroArgs : ReplicatedArgs {
  int stage = 3;  ///< the stages of Rajbhandari et al. 2020
  ParameterPlace parameters = ParameterPlace::automatic;
  std::optional<bool> overlap;  ///< absent: unless batch norm is synchronised
  Accumulation accumulation = Accumulation::whole;
  std::int64_t bucket_bytes = std::int64_t{4} << 20;  ///< about three exist at a time (benchmarks/RESULTS.md)

  void fields(auto&& field) {
    field("stage", stage, "what ranks divide. 1: optimizer state. 2: also gradients. 3: also parameters",
          Range::between(1, 3));
    field("parameters", parameters,
          "place of stage 3's parameters. mapped: one copy that the CPU ranks of a node share. node, all: a "
          "shard on each rank of a node, or on each rank; blocks of the model are gathered when they run. "
          "auto: mapped if ranks share memory, else all");
    field("overlap", overlap,
          "reduce gradients during backward, which frees their memory; auto: unless sync_batchnorm is on");
    field("accumulation", accumulation,
          "gradients of several micro-batches (--accumulate_grad_batches), from stage 2 on. whole: each rank "
          "sums all of them, and exchanges them once. shards: ranks exchange those of each micro-batch, and "
          "keep their shards");
    field("bucket_bytes", bucket_bytes, "bytes of gradients that are reduced at once (0: no limit)",
          Range::at_least(0));
    ReplicatedArgs::fields(field);
  }
};

}  // namespace cxtrain
