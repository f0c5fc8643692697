#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <functional>
#include <string>
#include <vector>

#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {

/// The NCCL calls that cxtrain makes, as a table: the seam where tests put a library that hangs, fails or is
/// of another version, without a GPU. Names, arguments and results are NCCL's own.
struct NcclLibrary {
  std::function<decltype(ncclGetVersion)> get_version;
  std::function<decltype(ncclGetUniqueId)> get_unique_id;
  std::function<decltype(ncclCommInitRankConfig)> comm_init_rank_config;
  std::function<decltype(ncclCommSplit)> comm_split;
  std::function<decltype(ncclCommCount)> comm_count;
  std::function<decltype(ncclCommUserRank)> comm_user_rank;
  std::function<decltype(ncclCommGetAsyncError)> comm_get_async_error;
  std::function<decltype(ncclAllReduce)> all_reduce;
  std::function<decltype(ncclReduce)> reduce;
  std::function<decltype(ncclReduceScatter)> reduce_scatter;
  std::function<decltype(ncclAllGather)> all_gather;
  std::function<decltype(ncclBroadcast)> broadcast;
  std::function<decltype(ncclSend)> send;
  std::function<decltype(ncclRecv)> recv;
  std::function<decltype(ncclGroupStart)> group_start;
  std::function<decltype(ncclGroupEnd)> group_end;
  std::function<decltype(ncclCommFinalize)> comm_finalize;
  std::function<decltype(ncclCommDestroy)> comm_destroy;
  std::function<decltype(ncclCommAbort)> comm_abort;
  std::function<decltype(ncclGetErrorString)> get_error_string;
  std::function<decltype(ncclGetLastError)> get_last_error;
};

/// The library that libcxtrain_cuda.so is linked to.
const NcclLibrary& nccl_library();

/// Throws CommunicationError unless a library of this version has what NcclLibrary calls, in the same shape.
void check_nccl_version(int version);

/// "2.28.9" for NCCL's code 22809.
std::string nccl_version_text(int code);

/// NCCL's name of a dtype. Throws CommunicationError for one that it cannot add up.
ncclDataType_t nccl_type(c10::ScalarType dtype);
ncclRedOp_t nccl_op(ReduceOp op);

/// What went wrong and what to do, in NCCL's words and ours. To be asked before the communicator is aborted,
/// which takes NCCL's own words with it. `comm` may be null.
std::string nccl_reason(const NcclLibrary& library, ncclComm_t comm, ncclResult_t status);

/// What NCCL has found in the background on a communicator; ncclSuccess also while a call is under way.
ncclResult_t nccl_async_error(const NcclLibrary& library, ncclComm_t comm);

/// What an owner's destructor does: `close`, whose errors are logged, or, where `give_up` says so,
/// `abort_communicators`.
void end_communicators(const NcclLibrary& library, const std::vector<ncclComm_t>& comms, bool give_up,
                       const std::function<void()>& close) noexcept;

/// Gives communicators up, whose kernels then end, without waiting for a device that does not answer: NCCL
/// has five seconds for it, on a thread of its own. The library outlives the process's last communicator.
void abort_communicators(const NcclLibrary& library, std::vector<ncclComm_t> comms) noexcept;

}  // namespace cxtrain
