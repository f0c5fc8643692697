#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl_api.h"

namespace cxtrain {

const NcclApi& nccl_api() {
  static const NcclApi api{
      .get_version = ncclGetVersion,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_get_async_error = ncclCommGetAsyncError,
      .all_reduce = ncclAllReduce,
      .broadcast = ncclBroadcast,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
  };
  return api;
}

std::string nccl_version_text(int code) {
  // Up to 2.8 NCCL counted major * 1000 + minor * 100 + patch.
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

}  // namespace cxtrain

#endif
