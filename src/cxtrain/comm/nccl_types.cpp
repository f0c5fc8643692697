#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl_types.h"

#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {

ncclDataType_t nccl_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ncclFloat32;
    case at::kDouble:
      return ncclFloat64;
    case at::kHalf:
      return ncclFloat16;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kInt:
      return ncclInt32;
    case at::kLong:
      return ncclInt64;
    case at::kByte:
      return ncclUint8;
    default:
      throw CommunicationError(std::string("NCCL has no type for tensors of ") + c10::toString(dtype) +
                               "; use float32, float64, bfloat16, float16, int32, int64 or uint8");
  }
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
  }
  return ncclSum;
}

}  // namespace cxtrain

#endif
