#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cxtrain/config/field.h"
#include "cxtrain/config/strategy_traits.h"
#include "cxtrain/config/values.h"
#include "replicated_args.h"

/// The arguments of `ddp` and `ddp_spawn`, as `--strategy.bucket_bytes 1000000`.
namespace cxtrain {

struct DdpArgs : ReplicatedArgs {
  std::optional<bool> overlap;          ///< absent: if the communicator gains by it
  std::optional<bool> shard_optimizer;  ///< absent: if it pays
  /// The defaults suit GPUs and memory. Between CPU nodes buckets are smaller, unless these are given
  /// (`Communicator::message_bytes`).
  std::int64_t first_bucket_bytes = std::int64_t{1} << 20;
  std::int64_t bucket_bytes = std::int64_t{25} << 20;
  std::string comm_hook = kNoCommHook;
  /// Post-local SGD. A period of 0: all ranks average their gradients in every step.
  std::int64_t model_averaging_period = 0, model_averaging_start = 0;
  double outer_lr = 1, outer_momentum = 0;  ///< the defaults take the mean as it is

  void fields(auto&& field) {
    field("overlap", overlap, "reduce gradients during backward; auto: where it helps");
    field("shard_optimizer", shard_optimizer,
          "divide the optimizer's work among a node's ranks; auto: where it pays");
    field("first_bucket_bytes", first_bucket_bytes, "bytes of the first gradient bucket (0: no limit)",
          Range::at_least(0));
    field("bucket_bytes", bucket_bytes, "bytes of the other gradient buckets (0: no limit)",
          Range::at_least(0));
    field(kCommHookArgument, comm_hook,
          "send fewer bytes of gradients: bf16, fp16, auto, powersgd, or a plugin's hook");
    field("model_averaging_period", model_averaging_period,
          "steps from one mean of the nodes' models to the next; in between gradients stay within a node; "
          "0: gradients of all ranks in each step",
          Range::at_least(0));
    field("model_averaging_start", model_averaging_start,
          "steps with gradients of all ranks before nodes train apart", Range::at_least(0));
    field("outer_lr", outer_lr,
          "learning rate of the step that ends a period of model averaging (DiLoCo: 0.7); 1: the mean as it "
          "is",
          Range::above(0));
    field("outer_momentum", outer_momentum, "Nesterov's momentum of this step (DiLoCo: 0.9)",
          Range::below(0, 1));
    ReplicatedArgs::fields(field);
  }
};

/// Whether a period of model averaging ends with more than the mean.
inline bool has_outer_step(const DdpArgs& args) { return args.outer_lr != 1 || args.outer_momentum != 0; }

}  // namespace cxtrain
