#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cxtrain/memory/shared_memory.h"

namespace cxtrain {

/// A piece of host memory of which every rank of a node has a copy, to be kept alike: each rank changes a
/// shard of its own copy, and takes the others' from theirs.
class NodeReplicas {
 public:
  virtual ~NodeReplicas() = default;

  /// This rank's place among the ranks of the node, and their number.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// This rank's copy; may outlive this.
  virtual std::shared_ptr<SharedMemory> mine() const = 0;

  /// Every rank gets the shards of the others, which end where `ends` says (bytes, ascending, one per rank,
  /// the same on all). Collective over the node: nobody's shard is read before they have come here, and when
  /// it returns everyone has read it. Throws CommunicationError after the communicator's timeout.
  virtual void all_gather(std::span<const std::size_t> ends) = 0;
};

}  // namespace cxtrain
