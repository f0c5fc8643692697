#pragma once

#include <memory>
#include <span>

#include "cxtrain/cuda/nccl_communicator.h"
#include "cxtrain/cuda/nccl_peers.h"
#include "support/fake_device/fake_accelerator.h"
#include "support/fake_device/moving_nccl.h"

namespace cxtrain::test {

/// Fake devices as the program has CUDA's: NCCL's communicators, over a table of calls that moves bytes.
class FakeNcclAccelerator final : public FakeAccelerator {
 public:
  /// For devices of this process. `devices`: how many there are.
  explicit FakeNcclAccelerator(int devices, int rank = 0) : FakeAccelerator(devices, rank) {}
  /// For ranks with devices of their own. `ranks` moves host memory between them, and outlives this.
  FakeNcclAccelerator(int devices, Communicator& ranks)
      : FakeAccelerator(devices, ranks.rank()), nccl(ranks) {}

  std::unique_ptr<Communicator> connect(World& world, c10::Device device) override {
    return std::make_unique<NcclCommunicator>(world, device, library_);
  }
  std::unique_ptr<PeerCommunicator> connect_peers(World& world,
                                                  std::span<const c10::Device> devices) override {
    return std::make_unique<NcclPeers>(world, devices, library_);
  }

  MovingNccl nccl;

 private:
  NcclLibrary library_ = nccl.library();
};

}  // namespace cxtrain::test
