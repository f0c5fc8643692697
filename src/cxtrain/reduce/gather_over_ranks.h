#pragma once

#include <ATen/core/Tensor.h>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Joins the tensors of all ranks in dimension 0, in rank order. A number counts as one row. The ranks may
/// have different numbers of rows; all other sizes and the dtype are equal, or every rank throws a
/// TrainingError. Returns the same bits on all ranks. Collective.
///
/// `gradients`: backward of the result gives each rank's tensor the sum of its gradients over all ranks, as
/// torch.distributed.nn.functional.all_gather does. This backward is collective, on the thread on which
/// autograd runs; `communicator` outlives it. Otherwise the result has no gradient.
at::Tensor gather_over_ranks(const at::Tensor& own, World& world, Communicator& communicator, bool gradients);

}  // namespace cxtrain
