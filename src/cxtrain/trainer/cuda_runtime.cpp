#include "cxtrain/trainer/cuda_runtime.h"

#ifdef CXTRAIN_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace cxtrain {

int cuda_runtime_version() {
#ifdef CXTRAIN_WITH_CUDA
  return CUDART_VERSION;
#else
  return 0;
#endif
}

}  // namespace cxtrain
