#include "cxtrain/cuda/nccl_library.h"

namespace cxtrain {

const NcclLibrary& nccl_library() {
  static const NcclLibrary api{
      .get_version = ncclGetVersion,
      .get_unique_id = ncclGetUniqueId,
      .comm_init_rank_config = ncclCommInitRankConfig,
      .comm_split = ncclCommSplit,
      .comm_count = ncclCommCount,
      .comm_user_rank = ncclCommUserRank,
      .comm_get_async_error = ncclCommGetAsyncError,
      .all_reduce = ncclAllReduce,
      .reduce = ncclReduce,
      .reduce_scatter = ncclReduceScatter,
      .all_gather = ncclAllGather,
      .broadcast = ncclBroadcast,
      .send = ncclSend,
      .recv = ncclRecv,
      .group_start = ncclGroupStart,
      .group_end = ncclGroupEnd,
      .comm_finalize = ncclCommFinalize,
      .comm_destroy = ncclCommDestroy,
      .comm_abort = ncclCommAbort,
      .get_error_string = ncclGetErrorString,
      .get_last_error = ncclGetLastError,
  };
  return api;
}

}  // namespace cxtrain
