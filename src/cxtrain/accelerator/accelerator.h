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

/// Collectives between the devices of one process, with one or more tensors per device. A collective runs
/// after the work already submitted to each device's current stream, and before work that is submitted there
/// later. Called by one thread. Throws CommunicationError; after an error no other method may be called.
class PeerCommunicator {
 public:
  /// `tensors[m]`: the tensors on device m, in the order of the devices that the communicator was made for.
  /// Every device has an equal number of dense tensors. Tensor i has equal sizes, dtype and strides on every
  /// device.
  using Tensors = std::span<const std::vector<at::Tensor>>;

  virtual ~PeerCommunicator() = default;
  /// For the log: "NCCL 2.28.9".
  virtual std::string description() const = 0;
  /// Copies the first device's values to all devices.
  virtual void broadcast(Tensors tensors) = 0;
  /// Sums the values over the devices, on the first device. The values on all other devices are undefined
  /// afterwards.
  virtual void reduce(Tensors tensors) = 0;
};

/// Versions of an accelerator's libraries, as people read them.
struct AcceleratorVersions {
  std::string cuda;          ///< built with, runtime, driver; empty: there is none
  std::string nccl;          ///< "2.28.9"; empty: there is none
  std::string nccl_headers;  ///< that the library was built with
};

/// A kind of accelerator (CUDA): the functions that this program needs and LibTorch has no interface for.
/// LibTorch has interfaces for streams, events, generators and allocators (c10::Stream, c10::Event,
/// c10::DeviceAllocator).
///
/// The implementation for CUDA is in a separate library, which only processes with a GPU open
/// (`open_accelerator`). Tests have an implementation for devices that need no hardware.
class Accelerator : public PageLocker {
 public:
  /// Returns whether the device multiplies float32 much faster if it may round to TF32.
  virtual bool has_tf32(c10::Device device) const = 0;
  /// Returns the device's identifier among all devices of all nodes, independent of the numbers that
  /// processes use: "GPU-..." as nvidia-smi writes it. Starts the device.
  virtual std::string uuid(c10::Device device) const = 0;
  /// Makes collectives between the ranks of `world`, each with a device of its own. Collective over `world`,
  /// which must outlive the communicator. The watchdog of `world` ends waits. Throws CommunicationError.
  virtual std::unique_ptr<Communicator> connect(World& world, c10::Device device) = 0;
  /// Makes collectives between devices of this process: at least two, all different. The watchdog of `world`
  /// ends waits. Throws CommunicationError.
  virtual std::unique_ptr<PeerCommunicator> connect_peers(World& world,
                                                          std::span<const c10::Device> devices) = 0;
  /// Returns the versions that the library was built with and the versions that it found.
  virtual AcceleratorVersions versions() const = 0;
};

}  // namespace cxtrain
