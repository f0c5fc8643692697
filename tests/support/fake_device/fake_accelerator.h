#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/cuda/nccl_communicator.h"
#include "cxtrain/cuda/nccl_peers.h"
#include "support/fake_device/fake_device.h"
#include "support/fake_device/moving_nccl.h"

namespace cxtrain::test {

/// Fake devices as the program has CUDA's: NCCL's communicators, over a table of calls that moves bytes.
class FakeAccelerator final : public Accelerator {
 public:
  /// For devices of this process. `devices`: how many there are.
  explicit FakeAccelerator(int devices, int rank = 0) : rank_(rank) { use_fake_devices(devices); }
  /// For ranks with devices of their own. `ranks` moves host memory between them, and outlives this.
  FakeAccelerator(int devices, Communicator& ranks) : nccl(ranks), rank_(ranks.rank()) {
    use_fake_devices(devices);
  }

  bool has_tf32(c10::Device) const override { return true; }
  std::string uuid(c10::Device device) const override {
    const std::string owner = ranks_share_devices ? "" : std::to_string(rank_) + "-";
    return "FAKE-" + owner + std::to_string(device.index());
  }
  std::unique_ptr<Communicator> connect(World& world, c10::Device device) override {
    return std::make_unique<NcclCommunicator>(world, device, library_);
  }
  std::unique_ptr<PeerCommunicator> connect_peers(World& world,
                                                  std::span<const c10::Device> devices) override {
    return std::make_unique<NcclPeers>(world, devices, library_);
  }
  std::vector<std::string> versions() const override { return {}; }
  bool lock(void*, std::size_t) override { return false; }
  void unlock(void*) override {}

  MovingNccl nccl;
  /// Whether a device of this name is the same one on all ranks.
  bool ranks_share_devices = false;

 private:
  NcclLibrary library_ = nccl.library();
  int rank_;
};

}  // namespace cxtrain::test
