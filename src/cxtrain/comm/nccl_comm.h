#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/nccl_api.h"

namespace cxtrain {

/// The first two ranks whose texts are the same, where there are any: with the UUIDs of the ranks' GPUs, two
/// that share one, which NCCL refuses.
std::optional<std::pair<int, int>> ranks_sharing_a_gpu(std::span<const std::string> uuids);

/// One NCCL communicator over all ranks of a world. Non-blocking: every call is polled until NCCL has
/// finished it on the host, never longer than the timeout. Any failure aborts the communicator, on this rank,
/// and throws CommunicationError with rank, host, operation, NCCL's own words and what to do; after that only
/// the destructor may be called. Used by one thread at a time, whose current device is the one the
/// communicator was made on.
class NcclComm {
 public:
  struct Options {
    std::string gpu_uuid;           ///< of this rank's GPU
    double timeout_seconds = 1800;  ///< of one call
  };

  /// Collective over the world, which outlives it. Table and clock outlive it too.
  NcclComm(World& world, Options options, const NcclApi& api = nccl_api(),
           const Clock& clock = default_clock());
  /// Closes it; aborts while an exception is under way, when the other ranks may not come.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// Of the library, as NCCL codes it: 22809 is 2.28.9.
  int version() const noexcept { return version_; }
  const NcclApi& api() const noexcept { return api_; }

  /// Makes one NCCL call on the communicator and waits until it is enqueued (not until the GPU has done it).
  void call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& operation);

  /// Throws if NCCL has found an error since: a lost connection, a peer that aborted. Costs one atomic read.
  void check_async();

  /// Collective: waits for what is enqueued, then gives everything back. Does nothing when closed or aborted.
  void close();
  /// Gives up at once; kernels that wait for other ranks end. Never throws.
  void abort() noexcept;
  bool is_open() const noexcept { return comm_ != nullptr; }

 private:
  static const Clock& default_clock();
  void check_version();
  void refuse_shared_gpu(World& world) const;
  ncclUniqueId agree_on_id(World& world) const;
  void await(const char* name, ncclResult_t status);
  [[noreturn]] void fail(const char* name, ncclResult_t status);

  Options options_;
  const NcclApi& api_;
  const Clock& clock_;
  std::string hostname_;
  int rank_, size_;
  int version_ = 0;
  ncclComm_t comm_ = nullptr;
};

}  // namespace cxtrain
