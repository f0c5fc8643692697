#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"
#include "cxtrain/base/error.h"
#include "cxtrain/comm/communicator.h"
#include "support/fake_device/fake_device.h"

namespace cxtrain::test {

/// Fake devices of one process, which has no other process to talk to. Builds without NCCL's header have it,
/// too; FakeNcclAccelerator connects ranks.
class FakeAccelerator : public Accelerator {
 public:
  explicit FakeAccelerator(int devices, int rank = 0) : rank_(rank) { use_fake_devices(devices); }

  bool has_tf32(c10::Device) const override { return true; }
  std::string uuid(c10::Device device) const override {
    const std::string owner = ranks_share_devices ? "" : std::to_string(rank_) + "-";
    return "FAKE-" + owner + std::to_string(device.index());
  }
  std::unique_ptr<Communicator> connect(World&, c10::Device) override {
    throw Error(ExitCode::failure, MessageCode::none, "this fake accelerator connects no ranks");
  }
  std::unique_ptr<PeerCommunicator> connect_peers(World&, std::span<const c10::Device>) override {
    throw Error(ExitCode::failure, MessageCode::none, "this fake accelerator connects no devices");
  }
  AcceleratorVersions versions() const override { return {}; }
  bool lock(void*, std::size_t) override { return false; }
  void unlock(void*) override {}

  /// Whether a device of this name is the same one on all ranks.
  bool ranks_share_devices = false;

 private:
  int rank_;
};

}  // namespace cxtrain::test
