#include "cxtrain/cli/versions.h"

#include <mpi.h>

#include "cxtrain/plugin/plugin_abi.h"

#ifdef CXTRAIN_WITH_CUDA
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif

namespace cxtrain {

std::string version_line() { return CXTRAIN_FINGERPRINT; }

std::vector<std::string> version_lines() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string mpi(text, static_cast<std::size_t>(length));
  mpi = mpi.substr(0, mpi.find_first_of(",\n"));
  std::vector<std::string> lines{"built with " CXTRAIN_FINGERPRINT, "MPI: " + mpi,
                                 "plugin ABI: " + std::to_string(CXTRAIN_PLUGIN_ABI)};
#ifdef CXTRAIN_WITH_CUDA
  int driver = 0, nccl = 0;
  cudaDriverGetVersion(&driver);
  ncclGetVersion(&nccl);
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  lines.push_back("CUDA: built with " + version(CUDART_VERSION) +
                  (driver == 0 ? ", no driver on this machine" : ", driver for " + version(driver)));
  lines.push_back("NCCL: " + std::to_string(nccl / 10000) + "." + std::to_string(nccl / 100 % 100) + "." +
                  std::to_string(nccl % 100) + " (headers " + std::to_string(NCCL_MAJOR) + "." +
                  std::to_string(NCCL_MINOR) + "." + std::to_string(NCCL_PATCH) + ")");
#else
  lines.push_back("CUDA: this build has no GPU support");
#endif
  return lines;
}

}  // namespace cxtrain
