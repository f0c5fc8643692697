#pragma once

#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

/// The arguments that `ddp` and `zero` share.
struct ReplicatedArgs {
  bool find_unused_parameters =
      false;                      ///< parameters that no rank used stay without a gradient, as in `single`
  bool broadcast_buffers = true;  ///< after each step; else at the start and the end only
  NetworkWay network = NetworkWay::automatic;

  void fields(auto&& field) {
    field("find_unused_parameters", find_unused_parameters,
          "leave parameters that no rank used without a gradient");
    field("broadcast_buffers", broadcast_buffers,
          "send rank 0's buffers to all ranks after each step; false: at the start and the end only");
    field("network", network,
          "way of gradients between CPU nodes; auto: tcp, beside backward, unless MPI is much faster");
  }
};

}  // namespace cxtrain
