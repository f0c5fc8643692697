#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include "cxtrain/comm/reduce_op.h"

namespace cxtrain {

/// NCCL's name of a dtype. Throws CommunicationError for one that it cannot add up.
ncclDataType_t nccl_type(c10::ScalarType dtype);
ncclRedOp_t nccl_op(ReduceOp op);

}  // namespace cxtrain
