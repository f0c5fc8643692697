#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/named_tensor.h"

namespace cxtrain {

/// Gives every rank rank 0's tensors, as one message per dtype and device: parameters at the start, and after
/// each step the buffers that a forward pass changes (running statistics of batch norm), as torch's
/// DistributedDataParallel does.
class TensorSync {
 public:
  /// The tensors are handles; the communicator outlives this.
  TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator);

  /// Collective. Nothing waits for the device.
  void broadcast();

  /// For tensors that are sent once: in pieces of 32 MiB, so that they are not all held twice. Collective.
  static void broadcast_once(const std::vector<NamedTensor>& tensors, Communicator& communicator);

 private:
  struct Group {
    std::vector<at::Tensor> tensors;
    std::vector<at::Tensor> places;  ///< their parts of `flat`, shaped like them
    at::Tensor flat;
  };

  Communicator& communicator_;
  std::vector<Group> groups_;
};

}  // namespace cxtrain
