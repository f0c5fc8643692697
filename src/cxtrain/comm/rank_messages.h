#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Messages of tensors between two ranks. A message says what its tensors are, so that the receiver needs to
/// know neither their sizes nor their number. A send waits for nobody. Messages of one pair of ranks and one
/// tag arrive in the order of sending. One thread calls it. Errors are CommunicationErrors.
class RankMessages {
 public:
  virtual ~RankMessages() = default;

  /// Begins to send tensors of any device, dtype and strides; undefined tensors count as such. The tensors'
  /// values must not change before they have been received. `tag`: 0 to 32,767.
  virtual void send(std::span<const at::Tensor> tensors, int to, int tag) = 0;
  /// Returns the tensors of the next message, in host memory, contiguous. Waits for the message. A tensor of
  /// more than 4 KiB may keep the memory of its whole message.
  virtual std::vector<at::Tensor> receive(int from, int tag) = 0;
  /// Waits until the other ranks have taken all messages of this tag but the last `count`. MPI takes small
  /// messages before a rank receives them.
  virtual void wait_for_all_but(std::size_t count, int tag) = 0;
  /// Waits until the other ranks have taken all messages of this rank.
  virtual void wait_for_all() = 0;
};

/// Makes messages for a world of several ranks, which must outlive them: within a node in memory that the
/// ranks share where they can, else by MPI. Memory of messages that nobody has received when the result ends
/// stays with MPI to the end of the process. Collective.
std::unique_ptr<RankMessages> make_rank_messages(World& world);

}  // namespace cxtrain
