#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <memory>
#include <thread>

#include "gpu_bench/cuda_measurement.h"

namespace cxtrain::gpu_bench {
namespace {

void require_nccl(ncclResult_t status, const char* what) {
  if (status != ncclSuccess && status != ncclInProgress)
    throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(status));
}
void require_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

/// A communicator of one rank.
class OneRank {
 public:
  explicit OneRank(bool blocking) {
    ncclUniqueId id;
    require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    require_nccl(ncclCommInitRankConfig(&comm_, 1, id, 0, &config), "ncclCommInitRankConfig");
    await();
    require_cuda(cudaMalloc(&memory_, 2 * kBytes), "cudaMalloc");
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~OneRank() {
    cudaStreamSynchronize(stream_);
    ncclCommAbort(comm_);
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  /// Until NCCL has enqueued it.
  void send_to_itself() {
    require_nccl(ncclGroupStart(), "ncclGroupStart");
    char* bytes = static_cast<char*>(memory_);
    require_nccl(ncclSend(bytes, kBytes, ncclChar, 0, comm_, stream_), "ncclSend");
    require_nccl(ncclRecv(bytes + kBytes, kBytes, ncclChar, 0, comm_, stream_), "ncclRecv");
    require_nccl(ncclGroupEnd(), "ncclGroupEnd");
    await();
  }
  void synchronize() { require_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  static constexpr std::size_t kBytes = 4096;

  /// A non-blocking call is done when NCCL says so.
  void await() {
    ncclResult_t state = ncclInProgress;
    while (true) {
      require_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
      if (state != ncclInProgress) break;
      std::this_thread::yield();
    }
    require_nccl(state, "NCCL, in the background");
  }

  ncclComm_t comm_ = nullptr;
  void* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Microseconds of the host a call.
double host_microseconds(bool blocking, int calls) {
  OneRank rank(blocking);
  for (int i = 0; i < 20; ++i) rank.send_to_itself();
  rank.synchronize();
  double seconds = 0;
  for (int i = 0; i < calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    rank.send_to_itself();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (i % 100 == 99) rank.synchronize();  // a full queue would be waited for
  }
  return seconds / calls * 1e6;
}

}  // namespace

Figures measure_nccl_calls(const Setup& setup) {
  if (!setup.device.is_cuda()) throw NotMeasurable("NCCL works on GPUs");
  const int calls = setup.tiny ? 100 : 1000;
  const double blocking = host_microseconds(true, calls), other = host_microseconds(false, calls);
  Figures figures;
  figures.add("blocking", blocking, "us");
  figures.add("non-blocking", other, "us");
  figures.add("non-blocking costs more", other - blocking, "us");
  return figures;
}

}  // namespace cxtrain::gpu_bench
