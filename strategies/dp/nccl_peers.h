#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "cxtrain/comm/nccl/nccl_library.h"

namespace cxtrain {

/// NCCL between the GPUs of one process: a communicator for each of them, driven by one thread in NCCL's
/// groups. Non-blocking and polled, never longer than the timeout (NcclCalls). Any failure aborts all
/// communicators and throws CommunicationError with the member, operation, NCCL's own words and what to do;
/// after that only the destructor may be called.
class NcclPeers {
 public:
  struct Options {
    std::size_t size = 1;
    /// Makes a member's GPU the current one of this thread.
    std::function<void(std::size_t member)> select_device;
    double timeout_seconds = 1800;  ///< of one call
  };

  /// Table and clock outlive it.
  explicit NcclPeers(Options options, const NcclLibrary& api = nccl_library(),
                     const Clock& clock = NcclCalls::default_clock());
  ~NcclPeers();
  NcclPeers(const NcclPeers&) = delete;
  NcclPeers& operator=(const NcclPeers&) = delete;

  std::size_t size() const noexcept { return options_.size; }
  /// Of the library, as NCCL codes it: 22809 is 2.28.9.
  int version() const noexcept { return version_; }
  const NcclLibrary& api() const noexcept { return api_; }
  bool is_open() const noexcept { return !comms_.empty(); }

  /// Enqueues `operation(member, comm)` of every member, in order, as one NCCL group, and waits until all of
  /// it is enqueued (not until the GPUs have done it). An operation may make several NCCL calls, the same
  /// ones in the same order on every member. The current device is the last member's afterwards.
  void call(const char* name, const std::function<ncclResult_t(std::size_t, ncclComm_t)>& operation);

 private:
  void connect();
  void close();
  void abort() noexcept;
  /// Runs one thing for each member between NCCL's marks of a group, and waits.
  void grouped(const char* name, const std::function<ncclResult_t(std::size_t)>& operation);
  /// Throws for an error of this member's.
  void require(const char* name, ncclResult_t status, std::size_t member);
  [[noreturn]] void fail(const char* name, ncclResult_t status, std::size_t member);

  Options options_;
  const NcclLibrary& api_;
  NcclCalls calls_;
  int version_ = 0;
  std::vector<ncclComm_t> comms_;  ///< of each member; empty when closed or aborted
};

}  // namespace cxtrain
