#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/cuda/nccl_library.h"
#include "support/fake_device/nccl_clique.h"

namespace cxtrain::test {

struct NcclTable;

/// NCCL for fake devices: a table of its calls that moves bytes, between communicators of one process or
/// between ranks. Sums run in the order of the ranks, 16-bit floats in float32. A collective counts, on each
/// member's stream, as an operation that reads and writes that member's memory, and its end comes after its
/// beginning on all members of the process. Streams are those of fake devices, as their native handles;
/// memory that is not the stream's device's is refused.
///
/// Members of one process call in a group, or from a thread each. A blocking call waits until all members
/// have come to it (NCCL's returns earlier), up to `set_wait_limit`; a non-blocking one says "in
/// progress", and whoever asks learns that it has ended.
class MovingNccl {
 public:
  /// Between communicators of this process.
  MovingNccl();
  /// Between the ranks of `ranks`, which moves host memory and outlives this. All calls are collective. What
  /// streams of other processes have done is not known to the order checker.
  explicit MovingNccl(Communicator& ranks);
  ~MovingNccl();
  MovingNccl(const MovingNccl&) = delete;
  MovingNccl& operator=(const MovingNccl&) = delete;

  /// Refers to this object.
  NcclLibrary library();

  /// The next call of this name ("all_reduce", "comm_init_rank_config", "group_end") fails, and does nothing.
  void fail_next(const std::string& call, ncclResult_t error);
  /// The next collective of this process never ends: the streams of its members are held, and what it should
  /// have moved is not, until their communicators are aborted. Between ranks: to be told to all of them.
  void hang_next();
  /// What every communicator answers from now on when it is asked for errors; ncclSuccess: the truth.
  void report_async(ncclResult_t error);

  /// In order: "comm_init_rank_config 2 of 4", "all_reduce 128 float32", "send 3 int64 to 1", "group_end",
  /// "comm_abort" ... Questions are left out.
  std::vector<std::string> calls() const;
  int count(const std::string& call_or_its_beginning) const;

  /// How long a blocking call waits for other members; 20 s at first.
  void set_wait_limit(double seconds);

  int version = NCCL_VERSION_CODE;

 private:
  std::unique_ptr<NcclTable> table_;
};

}  // namespace cxtrain::test
