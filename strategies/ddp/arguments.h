#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/config/arguments.h"

/// What a user may say to `ddp` and `ddp_spawn`, as `--strategy.bucket_bytes 1000000`.
namespace cxtrain {

/// What gradients are rounded to on their way, after torch.distributed's hooks bf16_compress_hook and
/// fp16_compress_hook.
enum class CommHook { none, bf16, fp16 };

struct DdpSettings {
  bool find_unused_parameters =
      false;                    ///< parameters that no rank used stay without a gradient, as in `single`
  std::optional<bool> overlap;  ///< absent: where the communicator gains by it
  std::optional<bool> shard_optimizer;  ///< absent: where it pays
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  CommHook comm_hook = CommHook::none;
  bool broadcast_buffers = true;  ///< after each step; else at the start and the end only
};

inline std::vector<ArgumentSpec> ddp_arguments() {
  using Type = ArgumentSpec::Type;
  const DdpSettings defaults;
  return {
      {"find_unused_parameters",
       Type::boolean,
       "false",
       "leave parameters that no rank used without a gradient",
       {}},
      {"overlap",
       Type::optional_boolean,
       "auto",
       "reduce gradients during backward; auto: where it helps",
       {}},
      {"shard_optimizer",
       Type::optional_boolean,
       "auto",
       "divide the optimizer's work among a node's ranks; auto: where it pays",
       {}},
      {"first_bucket_bytes",
       Type::integer,
       std::to_string(defaults.first_bucket_bytes),
       "bytes of the first gradient bucket (0: no limit)",
       {},
       Range::at_least(0)},
      {"bucket_bytes",
       Type::integer,
       std::to_string(defaults.bucket_bytes),
       "bytes of the other gradient buckets (0: no limit)",
       {},
       Range::at_least(0)},
      {"comm_hook",
       Type::text,
       "none",
       "round gradients to 16 bits on their way: bf16 or fp16",
       {"none", "bf16", "fp16"}},
      {"broadcast_buffers",
       Type::boolean,
       "true",
       "send rank 0's buffers to all ranks after each step; false: at the start and the end only",
       {}},
  };
}

/// Of arguments that were checked against `ddp_arguments()`.
inline DdpSettings read_ddp_settings(const Arguments& arguments) {
  const std::string& hook = arguments.text("comm_hook");
  return {.find_unused_parameters = arguments.boolean("find_unused_parameters"),
          .overlap = arguments.optional_boolean("overlap"),
          .shard_optimizer = arguments.optional_boolean("shard_optimizer"),
          .first_bucket_bytes = arguments.integer("first_bucket_bytes"),
          .bucket_bytes = arguments.integer("bucket_bytes"),
          .comm_hook = hook == "bf16"   ? CommHook::bf16
                       : hook == "fp16" ? CommHook::fp16
                                        : CommHook::none,
          .broadcast_buffers = arguments.boolean("broadcast_buffers")};
}

}  // namespace cxtrain
