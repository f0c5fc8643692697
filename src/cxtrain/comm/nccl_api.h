#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>

namespace cxtrain {

/// The NCCL calls that cxtrain makes, as a table: the seam where tests put a library that hangs, fails or is
/// of another version, without a GPU. Names, arguments and results are NCCL's own.
struct NcclApi {
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
const NcclApi& nccl_api();

/// What to do about it, by NCCL's kind of error; ncclInProgress: about a call that does not end.
const char* nccl_cure(ncclResult_t status);

/// "2.28.9" for NCCL's code 22809.
std::string nccl_version_text(int code);

}  // namespace cxtrain
