#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "cxtrain/comm/communicator.h"
#include "support/fake_device/nccl_message.h"

namespace cxtrain::test {

/// Members that misuse NCCL: they do not ask for the same.
class NcclMisuse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct NcclMember;

/// All members of a communicator that this process has: what they have asked for and not got yet. With the
/// fake devices' lock held.
class NcclClique {
 public:
  explicit NcclClique(int size) : members_(static_cast<std::size_t>(size)) {}
  virtual ~NcclClique() = default;

  int size() const { return static_cast<int>(members_.size()); }
  void join(NcclMember& member);
  /// Whether all members are there.
  virtual bool complete() const;
  /// Takes a message on; moves the bytes as soon as all whom it concerns have come to it. Throws NcclMisuse,
  /// FakeDeviceRace.
  virtual void post(FakeLock& lock, NcclMember& member, const NcclMessage& message);

 protected:
  std::vector<NcclMember*> members_;  ///< by rank; null: not there yet

 private:
  using Slot = std::vector<std::optional<NcclMessage>>;  // by rank

  void move(const Slot& slot);
  void split(const Slot& slot);
  void post_pair(NcclMember& member, const NcclMessage& message);

  std::deque<Slot> slots_;  // collectives that some members have come to
  std::vector<std::size_t> posted_ = std::vector<std::size_t>(members_.size());  // collectives by rank
  std::size_t moved_ = 0;
  std::deque<std::pair<NcclMember*, NcclMessage>> pairs_;  // sends and receipts without their counterpart
};

/// The same between ranks, each with one member: bytes go by a communicator of host memory.
class NcclRankClique final : public NcclClique {
 public:
  explicit NcclRankClique(std::unique_ptr<Communicator> ranks);

  bool complete() const override { return true; }
  void post(FakeLock& lock, NcclMember& member, const NcclMessage& message) override;

 private:
  std::unique_ptr<Communicator> ranks_;
};

/// What an ncclComm_t points to.
struct NcclMember {
  std::shared_ptr<NcclClique> clique;  ///< null: a part that has yet to be made
  int rank = 0;
  bool blocking = true;
  int polls = 0;               ///< to be answered with "in progress" yet
  int pending = 0;             ///< messages that have not been moved
  NcclMember* part = nullptr;  ///< of the split that is under way
  ncclResult_t error = ncclSuccess;
  bool aborted = false, destroyed = false;
  std::vector<FakeStream*> held;  ///< by collectives that never end
};

}  // namespace cxtrain::test
