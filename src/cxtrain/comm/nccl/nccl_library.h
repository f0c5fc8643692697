#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <string>

#include "cxtrain/base/clock.h"
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

/// The library that this program is linked to.
const NcclLibrary& nccl_library();

/// What to do about it, by NCCL's kind of error; ncclInProgress: about a call that does not end.
const char* nccl_cure(ncclResult_t status);

/// "2.28.9" for NCCL's code 22809.
std::string nccl_version_text(int code);

/// NCCL's name of a dtype. Throws CommunicationError for one that it cannot add up.
ncclDataType_t nccl_type(c10::ScalarType dtype);
ncclRedOp_t nccl_op(ReduceOp op);

/// How an owner of non-blocking NCCL communicators sees its calls to their end: it polls, and never for
/// longer than the timeout.
class NcclCalls {
 public:
  /// Library and clock outlive it. `timeout_seconds`: of one call.
  NcclCalls(const NcclLibrary& library, const Clock& clock, double timeout_seconds)
      : library_(library), clock_(clock), timeout_seconds_(timeout_seconds) {}
  /// For another owner, which is made now.
  NcclCalls(const NcclCalls& other) : NcclCalls(other.library_, other.clock_, other.timeout_seconds_) {}
  NcclCalls& operator=(const NcclCalls&) = delete;

  static const Clock& default_clock();

  /// When a call that begins now has to have ended, by the clock.
  double deadline() const { return clock_.now() + timeout_seconds_; }
  /// Waits until NCCL has finished on the host what the communicator was told (the GPU may have yet to do
  /// it). Returns ncclSuccess, NCCL's error, or ncclInProgress where the deadline has passed.
  ncclResult_t wait(ncclComm_t comm, double deadline) const;
  /// What went wrong and what to do: "not finished within 30 s (no further word from NCCL); see whether ...".
  /// To be asked before the communicator is aborted, which takes NCCL's own words with it.
  std::string reason(ncclComm_t comm, ncclResult_t status) const;
  /// What the owner's destructor does: `close`, whose errors are logged; or `abort`, while an exception is
  /// under way that came after the owner was made, since the other ranks may not come to a close.
  void end(const std::function<void()>& close, const std::function<void()>& abort) const noexcept;

 private:
  const NcclLibrary& library_;
  const Clock& clock_;
  double timeout_seconds_;
  int exceptions_ = std::uncaught_exceptions();  ///< under way when the owner was made
};

}  // namespace cxtrain
