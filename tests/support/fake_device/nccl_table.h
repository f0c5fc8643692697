#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/fake_device/nccl_clique.h"

namespace cxtrain::test {

/// What the functions of MovingNccl's library share: the members that were made, what the test has planned,
/// and what has been asked.
struct NcclTable {
  explicit NcclTable(Communicator* ranks) : host_ranks(ranks) {}

  /// Notes the call; its outcome if the test has said that it fails.
  ncclResult_t begin(const std::string& name, const std::string& details = "");
  ncclResult_t refuse(ncclResult_t error, std::string reason);
  ncclResult_t init(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank, const ncclConfig_t* config);
  NcclMember& make(bool blocking);
  ncclResult_t operation(ncclComm_t comm, NcclMessage message, cudaStream_t stream);
  ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* part, const ncclConfig_t* config);
  /// At once, or at the group's end.
  ncclResult_t take(FakeLock& lock, NcclMember& member, const NcclMessage& message);
  ncclResult_t post(FakeLock& lock, NcclMember& member, const NcclMessage& message);
  std::size_t hanging_members(const NcclMember& member) const;
  bool busy(const NcclMember& member) const;
  /// Waits where the members are blocking.
  ncclResult_t finish(FakeLock& lock, const std::vector<NcclMember*>& of);
  ncclResult_t group_start();
  ncclResult_t group_end();
  ncclResult_t ask(ncclComm_t comm, ncclResult_t* error);
  ncclResult_t close(ncclComm_t comm, const char* name, bool NcclMember::*flag);

  Communicator* host_ranks;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  ///< by unique id
  std::vector<std::unique_ptr<NcclMember>> members;            ///< all there ever were
  std::vector<std::string> calls;
  std::map<std::string, ncclResult_t> failures;
  std::set<NcclMember*> hung;  ///< members that have come to the collective that never ends
  int hanging = 0;
  ncclResult_t reported = ncclSuccess;
  std::string last_error;
  std::uint64_t ids = 0;
  std::condition_variable_any changed;
  double wait_limit_seconds = 20;
};

/// What an ncclComm_t stands for.
inline NcclMember& member_of(ncclComm_t comm) { return *reinterpret_cast<NcclMember*>(comm); }

}  // namespace cxtrain::test
