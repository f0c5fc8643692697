#include <mpi.h>

#include <cstdio>
#include <cstdlib>

/// Counts the collective calls of a rank, for LD_PRELOAD, and writes the number to the file
/// CXTRAIN_TEST_COLLECTIVES when MPI ends, on rank 0.
namespace {

long collectives = 0;

}  // namespace

#define CXTRAIN_COUNTED(name, parameters, arguments)                            \
  extern "C" __attribute__((visibility("default"))) int MPI_##name parameters { \
    ++collectives;                                                              \
    return PMPI_##name arguments;                                               \
  }

CXTRAIN_COUNTED(Barrier, (MPI_Comm comm), (comm))
CXTRAIN_COUNTED(Ibarrier, (MPI_Comm comm, MPI_Request* request), (comm, request))
CXTRAIN_COUNTED(Bcast, (void* data, int count, MPI_Datatype type, int root, MPI_Comm comm),
                (data, count, type, root, comm))
CXTRAIN_COUNTED(Allreduce,
                (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
                (from, to, count, type, op, comm))
CXTRAIN_COUNTED(Iallreduce,
                (const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                 MPI_Request* request),
                (from, to, count, type, op, comm, request))
CXTRAIN_COUNTED(Allgather,
                (const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype of_each,
                 MPI_Comm comm),
                (from, count, type, to, each, of_each, comm))
CXTRAIN_COUNTED(Gather,
                (const void* from, int count, MPI_Datatype type, void* to, int each, MPI_Datatype of_each,
                 int root, MPI_Comm comm),
                (from, count, type, to, each, of_each, root, comm))

CXTRAIN_COUNTED(Allgatherv,
                (const void* from, int count, MPI_Datatype type, void* to, const int* each, const int* places,
                 MPI_Datatype of_each, MPI_Comm comm),
                (from, count, type, to, each, places, of_each, comm))
CXTRAIN_COUNTED(Gatherv,
                (const void* from, int count, MPI_Datatype type, void* to, const int* each, const int* places,
                 MPI_Datatype of_each, int root, MPI_Comm comm),
                (from, count, type, to, each, places, of_each, root, comm))

extern "C" __attribute__((visibility("default"))) int MPI_Finalize() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* const path = std::getenv("CXTRAIN_TEST_COLLECTIVES");
  if (rank == 0 && path != nullptr) {
    if (std::FILE* const file = std::fopen(path, "w")) {
      std::fprintf(file, "%ld\n", collectives);
      std::fclose(file);
    }
  }
  return PMPI_Finalize();
}
