#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/comm/node/shared_memory.h"

namespace cxtrain {

class MpiComm;

/// Tensors for other ranks of the node, in memory that the sender shares with the receiver. The sender copies
/// the tensors of a letter once, and waits for nobody. The receiver's tensors lie in the sender's memory,
/// which may have another letter after these tensors have ended. One thread calls a mailbox; the receiver's
/// tensors may end on any thread, also after the mailboxes. Only `make` is collective.
class Mailbox {
 public:
  /// Null, on all ranks of the node, if the ranks cannot map each other's memory, and on a node with one
  /// rank. `comm`: all ranks; `node_comm`: the ranks of this node. Collective over `node_comm`.
  static std::unique_ptr<Mailbox> make(const MpiComm& comm, const MpiComm& node_comm);

  /// Returns whether a rank of `comm` is on this node.
  bool reaches(int rank) const;

  /// Where a letter lies. Plain data, to be sent to the receiver.
  struct Place {
    SharedMemory::Address memory = {};
    std::uint64_t number = 0;  ///< of the letter among the letters of this memory, from 1
  };
  /// A letter of this rank.
  struct Posted {
    std::shared_ptr<SharedMemory> memory;
    Place place;
  };
  /// Copies tensors of any device, dtype and strides into a letter. The tensors may change afterwards.
  /// `bytes`: `bytes_of(tensors)`, above 0. The letter has no memory (null) if the kernel refuses memory, or
  /// if 256 letters are on their way.
  Posted post(std::span<const at::Tensor> tensors, std::size_t bytes);
  /// Returns whether the receiver has opened a letter.
  static bool is_received(const Posted& letter) noexcept;
  /// Waits until the receiver has opened a letter, without a deadline. MPI makes no progress meanwhile.
  static void wait_until_received(const Posted& letter);

  /// A letter of another rank, with its tensors one after the other.
  class Letter {
   public:
    /// Returns the next tensor of the letter, contiguous, in host memory, which the receiver may change.
    /// Throws CommunicationError if the tensor is larger than what is left of the letter's memory.
    at::Tensor next(at::IntArrayRef sizes, at::ScalarType dtype);

   private:
    friend class Mailbox;
    class Held;
    explicit Letter(std::shared_ptr<SharedMemory> memory);
    std::shared_ptr<Held> held_;
    std::size_t read_;
  };
  /// Opens a letter, once. Throws CommunicationError if the memory cannot be mapped, or has no such letter.
  Letter open(const Place& place);

  /// Returns the bytes that tensors take in a letter; 0 if no tensor has an element.
  static std::size_t bytes_of(std::span<const at::Tensor> tensors);

 private:
  Mailbox(const MpiComm& comm, const MpiComm& node_comm);
  /// Returns memory without a letter, for `bytes` of tensors; null if there is none.
  std::shared_ptr<SharedMemory> free_memory(std::size_t bytes);

  std::vector<int> ranks_;                                ///< of the node
  std::vector<std::shared_ptr<SharedMemory>> own_;        ///< for letters of this rank
  using Name = std::pair<std::uint64_t, std::uint64_t>;   ///< device and inode
  std::map<Name, std::shared_ptr<SharedMemory>> mapped_;  ///< of other ranks
};

}  // namespace cxtrain
