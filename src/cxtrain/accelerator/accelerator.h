#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/comm/staged_communicator.h"

namespace cxtrain {

/// Collectives between the devices of one process, a tensor or more of each. They are ordered after the work
/// already submitted on each device's current stream, and before what is submitted there next. Called by one
/// thread. Errors are CommunicationErrors; after one nothing more can be called.
class PeerCommunicator {
 public:
  /// `tensors[m]`: those on device m, in the order of the devices it was made for; as many for each, alike in
  /// sizes, dtypes and strides, dense.
  using Tensors = std::span<const std::vector<at::Tensor>>;

  virtual ~PeerCommunicator() = default;
  /// For the log: "NCCL 2.28.9".
  virtual std::string description() const = 0;
  /// The first device's values, on all devices.
  virtual void broadcast(Tensors tensors) = 0;
  /// The sums over the devices, on the first one. The others' values are undefined afterwards.
  virtual void reduce(Tensors tensors) = 0;
};

/// A kind of accelerator (CUDA): what this program needs of one beyond the streams, events, generators and
/// allocators that LibTorch has an interface of its own for (c10::Stream, c10::Event, c10::DeviceAllocator).
///
/// CUDA's is in a library by itself, which only processes that use a GPU open (`open_accelerator`); tests
/// have one of devices that need no hardware.
class Accelerator : public PageLocker {
 public:
  /// Whether the device multiplies float32 much faster where it may round to TF32.
  virtual bool has_tf32(c10::Device device) const = 0;
  /// Which device this is of all there are, on this node and on others, however the processes number them:
  /// "GPU-..." as nvidia-smi writes it. Starts the device.
  virtual std::string uuid(c10::Device device) const = 0;
  /// Collectives between the ranks of a world, each of which has a device of its own. Collective over the
  /// world, which outlives it, and whose watchdog ends waits. Throws CommunicationError.
  virtual std::unique_ptr<Communicator> connect(World& world, c10::Device device) = 0;
  /// Collectives between devices of this process, at least two and all different; the same world's watchdog.
  /// Throws CommunicationError.
  virtual std::unique_ptr<PeerCommunicator> connect_peers(World& world,
                                                          std::span<const c10::Device> devices) = 0;
  /// What it was built with and what it has found, a line each, for `cxtrain_mpi info`.
  virtual std::vector<std::string> versions() const = 0;
};

}  // namespace cxtrain
