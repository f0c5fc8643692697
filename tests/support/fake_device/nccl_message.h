#pragma once

#include <c10/core/ScalarType.h>
#include <nccl.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/fake_device/launch.h"

namespace cxtrain::test {

/// What a member of an NCCL communicator has asked for.
struct NcclMessage {
  std::string name;  ///< of the call: "all_reduce"
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  ///< NCCL's argument: of the smaller side where sides differ
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = -1;  ///< or root
  FakeStream* stream = nullptr;
  int color = 0, key = 0;  ///< of a split

  bool is_pair() const { return name == "send" || name == "recv"; }
  /// Whether all members have to say the same.
  bool fits(const NcclMessage& other) const;
  /// What this member reads and writes, where there are `size` of them and it is number `rank`; in bytes.
  std::size_t bytes_sent(int rank, int size) const;
  std::size_t bytes_received(int rank, int size) const;
  std::vector<Access> accesses(int rank, int size) const;
};

std::size_t size_of(ncclDataType_t type);
/// "float32"; empty for a dtype that there is not.
std::string name_of(ncclDataType_t type);
/// Whether the elements can be combined.
bool can_reduce(ncclDataType_t type, ncclRedOp_t op);

/// Writes what member `rank` receives of a collective into `result`, given what each member has sent.
void combine(const NcclMessage& message, int rank, const std::vector<const std::byte*>& sent,
             std::byte* result);

}  // namespace cxtrain::test
