#pragma once

#include <c10/core/ScalarType.h>
#include <mpi.h>

#include "cxtrain/comm/reduce_op.h"

namespace cxtrain {

/// MPI's words for a dtype and an operation. MPI knows neither bfloat16 nor float16: for those both are our
/// own.
struct MpiReduction {
  MPI_Datatype type;
  MPI_Op op;
};

/// `avg` is a sum here; the caller divides. Throws CommunicationError for a dtype that cannot be reduced.
/// The handles are made once and live until MPI_Finalize.
MpiReduction mpi_reduction(c10::ScalarType dtype, ReduceOp op);

}  // namespace cxtrain
