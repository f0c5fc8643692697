#include "cxtrain/cuda/nccl_library.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {

namespace {

const char* nccl_cure(ncclResult_t status) {
  switch (status) {
    case ncclRemoteError:
      return "another rank ended or lost its connection: its own log says why";
    case ncclSystemError:
      return "NCCL_DEBUG=INFO shows the system call; often /dev/shm is too small, or the network interface "
             "is the wrong one (NCCL_SOCKET_IFNAME)";
    case ncclUnhandledCudaError:
      return "the GPU or its driver failed: see nvidia-smi and dmesg on this host, NCCL_DEBUG=INFO for the "
             "call";
    case ncclInvalidUsage:
    case ncclInvalidArgument:
      return "the ranks' calls do not match, or two processes share a GPU; NCCL_DEBUG=WARN says which";
    default:
      return "NCCL_DEBUG=INFO shows more";
  }
}

}  // namespace

void check_nccl_version(int version) {
  // ncclCommSplit came with 2.18, and ncclConfig_t, which says its size, with 2.14.
  constexpr int kOldest = 21800;
  if (version / 10000 == NCCL_VERSION_CODE / 10000 && version >= kOldest) return;
  throw CommunicationError("NCCL " + nccl_version_text(version) + " was found; this program was built for " +
                               nccl_version_text(NCCL_VERSION_CODE) + " and works with " +
                               nccl_version_text(kOldest) +
                               " and newer of the same generation; put such a "
                               "libnccl.so.2 first in LD_LIBRARY_PATH (LibTorch's own lies beside it)",
                           MessageCode::wrong_mpi);
}

std::string nccl_version_text(int code) {
  // Up to 2.8 NCCL counted major * 1000 + minor * 100 + patch.
  const int major = code < 10000 ? code / 1000 : code / 10000;
  const int minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
}

ncclDataType_t nccl_type(c10::ScalarType dtype) {
  static constexpr std::array<std::pair<c10::ScalarType, ncclDataType_t>, 7> kTypes{
      {{c10::kFloat, ncclFloat32},
       {c10::kDouble, ncclFloat64},
       {c10::kHalf, ncclFloat16},
       {c10::kBFloat16, ncclBfloat16},
       {c10::kInt, ncclInt32},
       {c10::kLong, ncclInt64},
       {c10::kByte, ncclUint8}}};
  for (const auto& [own, type] : kTypes) {
    if (own == dtype) return type;
  }
  throw CommunicationError(std::string("NCCL has no type for tensors of ") + c10::toString(dtype) +
                               "; use float32, float64, bfloat16, float16, int32, int64 or uint8",
                           MessageCode::bad_tensor);
}

ncclRedOp_t nccl_op(ReduceOp op) {
  constexpr std::array kOps{ncclSum, ncclAvg, ncclMin, ncclMax};  // in the order of ReduceOp
  return kOps[static_cast<std::size_t>(op)];
}

std::string nccl_reason(const NcclLibrary& library, ncclComm_t comm, ncclResult_t status) {
  const char* last = library.get_last_error(comm);
  const std::string detail = last == nullptr || *last == '\0' ? "no further word from NCCL" : last;
  return std::string(library.get_error_string(status)) + " (" + detail + "); " + nccl_cure(status);
}

ncclResult_t nccl_async_error(const NcclLibrary& library, ncclComm_t comm) {
  ncclResult_t found = ncclSuccess;
  const ncclResult_t asked = library.comm_get_async_error(comm, &found);
  if (asked != ncclSuccess) return asked;
  return found == ncclInProgress ? ncclSuccess : found;
}

void end_communicators(const NcclLibrary& library, const std::vector<ncclComm_t>& comms, bool give_up,
                       const std::function<void()>& close) noexcept {
  if (give_up) return abort_communicators(library, comms);
  try {
    close();
  } catch (const std::exception& error) {
    log_error(printed(error));
  }
}

void abort_communicators(const NcclLibrary& library, std::vector<ncclComm_t> comms) noexcept {
  constexpr std::chrono::seconds kPatience{5};
  std::erase(comms, nullptr);
  if (comms.empty()) return;
  try {
    std::promise<void> done;
    const std::future<void> end = done.get_future();
    std::thread thread(
        [&abort = library.comm_abort, comms = std::move(comms), done = std::move(done)]() mutable {
          for (const ncclComm_t comm : comms) abort(comm);
          done.set_value();
        });
    const bool ended = end.wait_for(kPatience) == std::future_status::ready;
    ended ? thread.join() : thread.detach();
  } catch (const std::exception& error) {
    log_warning(std::string("NCCL's communicators are left as they are: ") + error.what());
  }
}

}  // namespace cxtrain
