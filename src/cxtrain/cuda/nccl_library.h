#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {

/// The NCCL calls that cxtrain makes, as a table: the seam where tests put a library that hangs, fails or is
/// of another version, without a GPU. Names, arguments and results are NCCL's own.
struct NcclLibrary {
  std::function<ncclResult_t(int* version)> get_version;
  std::function<ncclResult_t(ncclUniqueId* id)> get_unique_id;
  std::function<ncclResult_t(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)>
      comm_init_rank_config;
  std::function<ncclResult_t(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config)>
      comm_split;
  std::function<ncclResult_t(const ncclComm_t comm, int* count)> comm_count;
  std::function<ncclResult_t(const ncclComm_t comm, int* rank)> comm_user_rank;
  std::function<ncclResult_t(ncclComm_t comm, ncclResult_t* error)> comm_get_async_error;
  std::function<ncclResult_t(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)>
      all_reduce;
  std::function<ncclResult_t(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)>
      reduce;
  std::function<ncclResult_t(const void* send, void* receive, std::size_t receive_count, ncclDataType_t type,
                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)>
      reduce_scatter;
  std::function<ncclResult_t(const void* send, void* receive, std::size_t send_count, ncclDataType_t type,
                             ncclComm_t comm, cudaStream_t stream)>
      all_gather;
  std::function<ncclResult_t(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                             int root, ncclComm_t comm, cudaStream_t stream)>
      broadcast;
  std::function<ncclResult_t(const void* send, std::size_t count, ncclDataType_t type, int peer,
                             ncclComm_t comm, cudaStream_t stream)>
      send;
  std::function<ncclResult_t(void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                             cudaStream_t stream)>
      recv;
  std::function<ncclResult_t()> group_start;
  std::function<ncclResult_t()> group_end;
  std::function<ncclResult_t(ncclComm_t comm)> comm_finalize;
  std::function<ncclResult_t(ncclComm_t comm)> comm_destroy;
  std::function<ncclResult_t(ncclComm_t comm)> comm_abort;
  std::function<const char*(ncclResult_t result)> get_error_string;
  std::function<const char*(ncclComm_t comm)> get_last_error;
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
