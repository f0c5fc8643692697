#pragma once

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

// What every communicator checks before it sends anything. They throw CommunicationError, naming the
// operation, what was given and what to do.

/// That the tensor has neither gaps nor overlaps.
void check_dense(const char* operation, const at::Tensor& tensor);
/// That there is a rank `root`.
void check_root(const Communicator& communicator, int root);
/// That there is a rank `peer`, and it is another one.
void check_peer(const char* operation, const Communicator& communicator, int peer);
/// That `output` and `input` fit each other and do not overlap, but for sharing in place, and that the dtype
/// can be reduced.
void check_reduce_scatter(const Communicator& communicator, const at::Tensor& output,
                          const at::Tensor& input);
void check_all_gather(const Communicator& communicator, const at::Tensor& output, const at::Tensor& input);

}  // namespace cxtrain
