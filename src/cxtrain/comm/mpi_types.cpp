#include "cxtrain/comm/mpi_types.h"

#include <array>
#include <cstddef>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_world.h"
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

}  // namespace

MpiReduction mpi_reduction(c10::ScalarType dtype, ReduceOp op) {
  const MPI_Op plain = op == ReduceOp::min ? MPI_MIN : op == ReduceOp::max ? MPI_MAX : MPI_SUM;
  switch (dtype) {
    case c10::ScalarType::Float:
      return {MPI_FLOAT, plain};
    case c10::ScalarType::Double:
      return {MPI_DOUBLE, plain};
    case c10::ScalarType::Int:
      return {MPI_INT32_T, plain};
    case c10::ScalarType::Long:
      return {MPI_INT64_T, plain};
    case c10::ScalarType::Byte:
      return {MPI_UINT8_T, plain};
    case c10::ScalarType::BFloat16: {
      static const HalfType bf16 = HalfType::make<c10::ScalarType::BFloat16>();
      return bf16.reduction(op);
    }
    case c10::ScalarType::Half: {
      static const HalfType f16 = HalfType::make<c10::ScalarType::Half>();
      return f16.reduction(op);
    }
    default:
      throw CommunicationError(std::string("MPI cannot reduce tensors of ") + c10::toString(dtype) +
                               "; use float32, float64, bfloat16, float16, int32, int64 or uint8");
  }
}

}  // namespace cxtrain
