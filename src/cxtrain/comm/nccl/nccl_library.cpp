#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl/nccl_library.h"

#include <chrono>
#include <cstdint>
#include <thread>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

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

ncclDataType_t nccl_type(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kFloat:
      return ncclFloat32;
    case c10::kDouble:
      return ncclFloat64;
    case c10::kHalf:
      return ncclFloat16;
    case c10::kBFloat16:
      return ncclBfloat16;
    case c10::kInt:
      return ncclInt32;
    case c10::kLong:
      return ncclInt64;
    case c10::kByte:
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

const Clock& NcclCalls::default_clock() {
  static const SteadyClock clock;
  return clock;
}

ncclResult_t NcclCalls::wait(ncclComm_t comm, double deadline) const {
  for (int polls = 0;; ++polls) {
    ncclResult_t status = ncclSuccess;
    if (const ncclResult_t asked = library_.comm_get_async_error(comm, &status); asked != ncclSuccess)
      status = asked;
    if (status != ncclInProgress || clock_.now() > deadline) return status;
    // Enqueuing takes microseconds, connecting up to seconds.
    constexpr int kBusyPolls = 1000;
    if (polls < kBusyPolls) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

std::string NcclCalls::reason(ncclComm_t comm, ncclResult_t status) const {
  const char* last = library_.get_last_error(comm);
  const std::string detail = last == nullptr || *last == '\0' ? "no further word from NCCL" : last;
  const std::string what =
      status == ncclInProgress
          ? "not finished within " + std::to_string(static_cast<std::int64_t>(timeout_seconds_)) + " s"
          : std::string(library_.get_error_string(status));
  return what + " (" + detail + "); " + nccl_cure(status);
}

void NcclCalls::end(const std::function<void()>& close, const std::function<void()>& abort) const noexcept {
  if (std::uncaught_exceptions() > exceptions_) return abort();
  try {
    close();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

}  // namespace cxtrain

#endif
