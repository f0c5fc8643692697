#pragma once

#include <cstdint>
#include <optional>

#include "cxtrain/config/field.h"
#include "cxtrain/config/network_way.h"

/// The arguments of `zero`, as `--strategy.stage 2`.
namespace cxtrain {

struct ZeroArgs {
  int stage = 3;  ///< the stages of Rajbhandari et al. 2020
  bool find_unused_parameters =
      false;                    ///< parameters that no rank used stay without a gradient, as in `single`
  std::optional<bool> overlap;  ///< absent: unless batch norm is synchronised
  std::int64_t bucket_bytes = std::int64_t{4} << 20;  ///< about three exist at a time (benchmarks/RESULTS.md)
  bool broadcast_buffers = true;                      ///< after each step; else at the start and the end only
  NetworkWay network = NetworkWay::automatic;

  void fields(auto&& field) {
    field("stage", stage, "what ranks divide. 1: optimizer state. 2: also gradients. 3: also parameters",
          Range::between(1, 3));
    field("find_unused_parameters", find_unused_parameters,
          "leave parameters that no rank used without a gradient");
    field("overlap", overlap,
          "reduce gradients during backward, which frees their memory; auto: unless sync_batchnorm is on");
    field("bucket_bytes", bucket_bytes, "bytes of gradients that are reduced at once (0: no limit)",
          Range::at_least(0));
    field("broadcast_buffers", broadcast_buffers,
          "send rank 0's buffers to all ranks after each step; false: at the start and the end only");
    field("network", network,
          "way of gradients between CPU nodes; auto: tcp, beside backward, unless MPI is much faster");
  }
};

}  // namespace cxtrain
