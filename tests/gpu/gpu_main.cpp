#ifndef CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_RUNNER
#endif
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

#include "support/catch.h"

/// Runs the cases on the first GPU. Without one it names every case as skipped and exits with 77, which ctest
/// counts as skipped and scripts/gpu_check.sh as failed: it never looks as if anything had been tested.
int main(int argc, char* argv[]) {
  constexpr int kSkipped = 77;
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  Catch::Session session;
  if (const int status = session.applyCommandLine(argc, argv); status != 0) return status;
  int gpus = 0;
  const cudaError_t found = cudaGetDeviceCount(&gpus);
  if (found == cudaSuccess && gpus > 0) return session.run();

  const char* reason = found == cudaSuccess ? "no device is visible" : cudaGetErrorString(found);
  int cases = 0;
  for (const auto& test : Catch::getAllTestCasesSorted(session.config())) {
    if (test.getTestCaseInfo().isHidden()) continue;  // a part of another case
    std::printf("skipped: %s: there is no GPU\n", test.getTestCaseInfo().name.c_str());
    ++cases;
  }
  std::printf("SKIPPED all %d cases, nothing was tested: no GPU (%s)\n", cases, reason);
  return kSkipped;
}
