#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cxtrain/config/field.h"
#include "cxtrain/config/network_way.h"
#include "cxtrain/config/values.h"

/// The arguments of `ddp` and `ddp_spawn`, as `--strategy.bucket_bytes 1000000`.
namespace cxtrain {

/// What gradients are rounded to on their way, after torch.distributed's hooks bf16_compress_hook and
/// fp16_compress_hook.
enum class CommHook { none, bf16, fp16 };

template <>
struct ChoiceOf<CommHook> {
  static constexpr std::array<std::string_view, 3> words{"none", "bf16", "fp16"};
};

struct DdpArgs {
  bool find_unused_parameters =
      false;                    ///< parameters that no rank used stay without a gradient, as in `single`
  std::optional<bool> overlap;  ///< absent: if the communicator gains by it
  std::optional<bool> shard_optimizer;  ///< absent: if it pays
  /// The defaults suit GPUs and memory. Between CPU nodes buckets are smaller, unless these are given
  /// (`Communicator::message_bytes`).
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  CommHook comm_hook = CommHook::none;
  bool broadcast_buffers = true;  ///< after each step; else at the start and the end only
  NetworkWay network = NetworkWay::automatic;

  void fields(auto&& field) {
    field("find_unused_parameters", find_unused_parameters,
          "leave parameters that no rank used without a gradient");
    field("overlap", overlap, "reduce gradients during backward; auto: where it helps");
    field("shard_optimizer", shard_optimizer,
          "divide the optimizer's work among a node's ranks; auto: where it pays");
    field("first_bucket_bytes", first_bucket_bytes, "bytes of the first gradient bucket (0: no limit)",
          Range::at_least(0));
    field("bucket_bytes", bucket_bytes, "bytes of the other gradient buckets (0: no limit)",
          Range::at_least(0));
    field("comm_hook", comm_hook,
          "round gradients to 16 bits on their way: bf16 or fp16; on CPUs between nodes only");
    field("broadcast_buffers", broadcast_buffers,
          "send rank 0's buffers to all ranks after each step; false: at the start and the end only");
    field("network", network,
          "way of gradients between CPU nodes; auto: tcp, beside backward, unless MPI is much faster");
  }
};

}  // namespace cxtrain
