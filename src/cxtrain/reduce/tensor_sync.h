#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Checks that every rank has the same parameters: names, shapes, dtypes, which of them are trained, in the
/// same order. Collective. Throws AgreedError, on every rank, naming the first parameter that differs,
/// the two ranks, and what each has. Costs one small message where all is well.
void verify_same_parameters(std::span<const NamedTensor> parameters, World& world);

/// Gives every rank rank 0's tensors, as one message per device, whatever their dtypes: parameters at the
/// start, and after each step the buffers that a forward pass changes (running statistics of batch norm, and
/// how many batches they have seen), as torch's DistributedDataParallel does.
class TensorSync {
 public:
  /// The tensors are handles; the communicator outlives this.
  TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator);

  /// Collective. Nothing waits for the device.
  void broadcast();

  /// For tensors that are sent once: in pieces of 32 MiB, so that they are not all held twice. Collective.
  static void broadcast_once(const std::vector<NamedTensor>& tensors, Communicator& communicator);

 private:
  /// Tensors of one dtype, and their places in the message, shaped like them.
  struct Part {
    std::vector<at::Tensor> tensors, slices;
  };
  struct Message {
    at::Device device;
    std::vector<Part> parts;
    at::Tensor bytes;  ///< [sum of the slices, each from a multiple of 16 on] uint8
  };

  Message& message_on(at::Device device);
  static void lay_out(Message& message);

  Communicator& communicator_;
  std::vector<Message> messages_;
};

}  // namespace cxtrain
