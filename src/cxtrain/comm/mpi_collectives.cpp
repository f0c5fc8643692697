#include "cxtrain/comm/mpi_collectives.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {
namespace {

template <c10::ScalarType dtype, ReduceOp op>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const std::array<const std::byte*, 2> src{static_cast<const std::byte*>(inout),
                                            static_cast<const std::byte*>(in)};
  const std::array<std::byte*, 1> dst{static_cast<std::byte*>(inout)};
  reduce_elements(dtype, op, src, dst, static_cast<std::size_t>(*count), 1);
}

/// A 2-byte float for MPI: a type that it may not convert, and the three operations on it.
class HalfType {
 public:
  template <c10::ScalarType dtype>
  static HalfType make() {
    HalfType half;
    check_mpi(MPI_Type_contiguous(2, MPI_BYTE, &half.type_), "MPI_Type_contiguous");
    check_mpi(MPI_Type_commit(&half.type_), "MPI_Type_commit");
    check_mpi(MPI_Op_create(combine<dtype, ReduceOp::sum>, 1, &half.sum_), "MPI_Op_create");
    check_mpi(MPI_Op_create(combine<dtype, ReduceOp::min>, 1, &half.min_), "MPI_Op_create");
    check_mpi(MPI_Op_create(combine<dtype, ReduceOp::max>, 1, &half.max_), "MPI_Op_create");
    return half;
  }
  MpiReduction reduction(ReduceOp op) const {
    return {type_, op == ReduceOp::min ? min_ : op == ReduceOp::max ? max_ : sum_};
  }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op sum_ = MPI_OP_NULL, min_ = MPI_OP_NULL, max_ = MPI_OP_NULL;
};

constexpr int kTag = 0;  // messages between two ranks come in their order

/// Calls `work(begin, size)` for each piece of `bytes` bytes.
template <class Work>
void for_each_piece(std::size_t bytes, Work&& work) {
  for (std::size_t begin = 0; begin < bytes; begin += kMpiPiece) {
    work(begin, static_cast<int>(std::min(kMpiPiece, bytes - begin)));
  }
}

/// `size` bytes, of which the next one's begin `stride` bytes later.
class StridedBytes {
 public:
  StridedBytes(int size, std::size_t stride) {
    MPI_Datatype bytes = MPI_DATATYPE_NULL;
    check_mpi(MPI_Type_contiguous(size, MPI_BYTE, &bytes), "MPI_Type_contiguous");
    const int made = MPI_Type_create_resized(bytes, 0, static_cast<MPI_Aint>(stride), &type_);
    MPI_Type_free(&bytes);
    check_mpi(made, "MPI_Type_create_resized");
    check_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  }
  ~StridedBytes() { MPI_Type_free(&type_); }
  StridedBytes(const StridedBytes&) = delete;
  StridedBytes& operator=(const StridedBytes&) = delete;

  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace

MpiReduction mpi_reduction(c10::ScalarType dtype, ReduceOp op) {
  using enum c10::ScalarType;
  if (dtype == BFloat16) {
    static const HalfType bf16 = HalfType::make<BFloat16>();
    return bf16.reduction(op);
  }
  if (dtype == Half) {
    static const HalfType f16 = HalfType::make<Half>();
    return f16.reduction(op);
  }
  const MPI_Op plain = op == ReduceOp::min ? MPI_MIN : op == ReduceOp::max ? MPI_MAX : MPI_SUM;
  const std::array<std::pair<c10::ScalarType, MPI_Datatype>, 5> types{{{Float, MPI_FLOAT},
                                                                       {Double, MPI_DOUBLE},
                                                                       {Int, MPI_INT32_T},
                                                                       {Long, MPI_INT64_T},
                                                                       {Byte, MPI_UINT8_T}}};
  for (const auto& [own, type] : types) {
    if (own == dtype) return {type, plain};
  }
  throw CommunicationError(std::string("MPI cannot reduce tensors of ") + c10::toString(dtype) +
                               "; use float32, float64, bfloat16, float16, int32, int64 or uint8",
                           MessageCode::bad_tensor);
}

void mpi_all_reduce(const MpiComm& comm, std::byte* data, c10::ScalarType dtype, std::size_t count,
                    ReduceOp op, int divisor) {
  const std::size_t element = c10::elementSize(dtype);
  const MpiReduction reduction = mpi_reduction(dtype, op);
  for_each_piece(count * element, [&](std::size_t begin, int bytes) {
    std::byte* const piece = data + begin;
    const std::size_t n = static_cast<std::size_t>(bytes) / element;
    comm.call("all_reduce", [&](MPI_Comm ranks) {
      return MPI_Allreduce(MPI_IN_PLACE, piece, static_cast<int>(n), reduction.type, reduction.op, ranks);
    });
    if (divisor == 1) return;
    const std::array<const std::byte*, 1> src{piece};
    const std::array<std::byte*, 1> dst{piece};
    reduce_elements(dtype, op, src, dst, n, divisor);
  });
}

void mpi_reduce_scatter(const MpiComm& comm, std::byte* output, const std::byte* input, c10::ScalarType dtype,
                        std::size_t count, ReduceOp op, int divisor, std::vector<std::byte>& scratch) {
  const std::size_t element = c10::elementSize(dtype), share = count * element;
  const std::size_t whole = share * static_cast<std::size_t>(comm.size());
  const std::size_t first = share * static_cast<std::size_t>(comm.rank());
  scratch.resize(std::max(scratch.size(), std::min(whole, kMpiPiece)));
  for_each_piece(whole, [&](std::size_t begin, int bytes) {
    const std::size_t size = static_cast<std::size_t>(bytes);
    std::memcpy(scratch.data(), input + begin, size);
    mpi_all_reduce(comm, scratch.data(), dtype, size / element, op, divisor);
    const std::size_t from = std::max(begin, first), to = std::min(begin + size, first + share);
    if (from < to) std::memcpy(output + (from - first), scratch.data() + (from - begin), to - from);
  });
}

void mpi_all_gather(const MpiComm& comm, std::byte* output, std::size_t bytes) {
  for_each_piece(bytes, [&](std::size_t begin, int size) {
    const StridedBytes piece(size, bytes);
    comm.call("all_gather", [&](MPI_Comm ranks) {
      return MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output + begin, 1, piece.get(), ranks);
    });
  });
}

void mpi_broadcast(const MpiComm& comm, std::byte* data, std::size_t bytes, int root) {
  for_each_piece(bytes, [&](std::size_t begin, int size) {
    comm.call("broadcast",
              [&](MPI_Comm ranks) { return MPI_Bcast(data + begin, size, MPI_BYTE, root, ranks); });
  });
}

void mpi_send(const MpiComm& comm, const std::byte* data, std::size_t bytes, int to) {
  for_each_piece(bytes, [&](std::size_t begin, int size) {
    comm.call(
        "send", [&](MPI_Comm ranks) { return MPI_Send(data + begin, size, MPI_BYTE, to, kTag, ranks); },
        Watchdog::Wait::Of::some_ranks);
  });
}

void mpi_recv(const MpiComm& comm, std::byte* data, std::size_t bytes, int from) {
  for_each_piece(bytes, [&](std::size_t begin, int size) {
    MPI_Status status;
    comm.call(
        "recv",
        [&](MPI_Comm ranks) { return MPI_Recv(data + begin, size, MPI_BYTE, from, kTag, ranks, &status); },
        Watchdog::Wait::Of::some_ranks);
    int received = 0;
    MPI_Get_count(&status, MPI_BYTE, &received);
    if (received == size) return;
    throw CommunicationError("recv: rank " + std::to_string(from) + " sent " + std::to_string(received) +
                                 " bytes instead of " + std::to_string(size) +
                                 "; send and receive tensors of equal size and dtype",
                             MessageCode::bad_tensor);
  });
}

}  // namespace cxtrain
