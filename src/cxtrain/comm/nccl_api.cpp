#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl_api.h"

namespace cxtrain {

const NcclApi& nccl_api() {
  static const NcclApi api{
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

const char* nccl_cure(ncclResult_t status) {
  switch (status) {
    case ncclInProgress:
      return "see whether every rank is alive and runs the same program, and which network NCCL takes "
             "(NCCL_DEBUG=INFO shows it, NCCL_SOCKET_IFNAME names one); --timeout_seconds sets the limit";
    case ncclRemoteError:
      return "another rank ended or lost its connection: its own log says why";
    case ncclSystemError:
      return "NCCL_DEBUG=INFO shows the system call; often /dev/shm is too small, or the network interface "
             "is the wrong one (NCCL_SOCKET_IFNAME)";
    case ncclUnhandledCudaError:
      return "the GPU or its driver failed: see nvidia-smi and dmesg on this host, NCCL_DEBUG=INFO for the "
             "call";
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return "the ranks' calls do not match, or two processes share a GPU; NCCL_DEBUG=WARN says which";
    default:
      return "NCCL_DEBUG=INFO shows more";
  }
}

std::string nccl_version_text(int code) {
  // Up to 2.8 NCCL counted major * 1000 + minor * 100 + patch.
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

}  // namespace cxtrain

#endif
