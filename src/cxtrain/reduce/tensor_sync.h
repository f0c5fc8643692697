#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// Checks that every rank has the same parameters in the same order: names, shapes, dtypes, and which are
/// trained. Collective. Throws AgreedError, on every rank, with the first parameter that differs, the two
/// ranks, and the parameter on each. Costs one small message if the ranks agree.
void verify_same_parameters(std::span<const NamedTensor> parameters, World& world);

/// Gives every rank rank 0's tensors, as one message per device, for any dtypes. Used for parameters at the
/// start. Used after each step for buffers that a forward pass changes (running statistics of batch norm and
/// their counts of batches), as in torch's DistributedDataParallel.
class TensorSync {
 public:
  /// The tensors are handles; the communicator must outlive this object.
  TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator);

  /// Collective. Does not wait for the device.
  void broadcast();

  /// Sends tensors that are sent only once, in pieces of 32 MiB, so that only a piece is held twice.
  /// Collective.
  static void broadcast_once(const std::vector<NamedTensor>& tensors, Communicator& communicator);

 private:
  /// Tensors of one dtype, and their places in the message, in the tensors' shapes.
  struct Part {
    std::vector<at::Tensor> tensors, slices;
  };
  struct Message {
    at::Device device;
    std::vector<Part> parts;
    at::Tensor bytes;  ///< uint8 [sum of the slices, each from a multiple of 16 on]
  };

  Message& message_on(at::Device device);
  static void lay_out(Message& message);

  Communicator& communicator_;
  std::vector<Message> messages_;
};

}  // namespace cxtrain
