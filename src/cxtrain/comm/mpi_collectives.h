#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/reduce_kernels.h"

/// Collectives on any host memory, by MPI alone. MPI is given pieces of `kMpiPiece` bytes at most: large
/// messages gain from that, and its counts are 32-bit. All throw CommunicationError.
namespace cxtrain {

inline constexpr std::size_t kMpiPiece = std::size_t{4} << 20;

/// MPI's words for a dtype and an operation. MPI knows neither bfloat16 nor float16: for those both are our
/// own.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};

/// `avg` is a sum here; the caller divides. Throws CommunicationError for a dtype that cannot be reduced.
/// The handles are made once and live until MPI_Finalize.
MpiReduction mpi_reduction(c10::ScalarType dtype, ReduceOp op);

/// Combines `count` elements at `data` over all ranks and divides by `divisor`.
void mpi_all_reduce(const MpiComm& comm, std::byte* data, c10::ScalarType dtype, std::size_t count,
                    ReduceOp op, int divisor);
/// Into `output`, `count` elements: what `mpi_all_reduce` of the whole would leave in this rank's share of
/// `input`. The ranks do reduce the whole, in `scratch`, as MPI promises the same bits for nothing less.
/// `scratch` grows to a piece at most; who keeps it saves page faults.
void mpi_reduce_scatter(const MpiComm& comm, std::byte* output, const std::byte* input, c10::ScalarType dtype,
                        std::size_t count, ReduceOp op, int divisor, std::vector<std::byte>& scratch);
/// Every rank's `bytes` bytes; this rank's lie in their place in `output`.
void mpi_all_gather(const MpiComm& comm, std::byte* output, std::size_t bytes);
void mpi_broadcast(const MpiComm& comm, std::byte* data, std::size_t bytes, int root);
void mpi_send(const MpiComm& comm, const std::byte* data, std::size_t bytes, int to);
void mpi_recv(const MpiComm& comm, std::byte* data, std::size_t bytes, int from);

}  // namespace cxtrain
