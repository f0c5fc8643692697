#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "cxtrain/accelerator/accelerator.h"

namespace cxtrain {

/// Sends the same list of tensors between the devices of one process again and again, in few messages: those
/// of one dtype lie one after the other in a buffer on each device, up to `piece_bytes` at a time, so that no
/// more than that is held twice. A larger tensor travels from where it is. Everything runs on each device's
/// current stream.
class FlatMessages {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{32} << 20;

  /// The peers outlive it.
  explicit FlatMessages(PeerCommunicator& peers, std::size_t piece_bytes = kPieceBytes)
      : peers_(peers), piece_bytes_(piece_bytes) {}

  /// As the peers' own. `tensors[m]`: those on device m, as many for each, alike in sizes and dtypes; strides
  /// may differ. Where the list has changed since the last call the messages are laid out anew.
  void broadcast(PeerCommunicator::Tensors tensors);
  void reduce(PeerCommunicator::Tensors tensors);

 private:
  using Lists = std::vector<std::vector<at::Tensor>>;  // by device

  /// What travels in one message.
  struct Piece {
    at::ScalarType dtype;
    std::vector<std::size_t> members;  ///< places in the list of tensors
    std::size_t bytes = 0;
    Lists slices;   ///< of each device's buffer, shaped like the first device's tensors; empty: not copied
    Lists buffers;  ///< a single tensor for each device
  };
  struct Layout {
    std::vector<std::int64_t> sizes, strides;
    at::ScalarType dtype;
    bool operator==(const Layout&) const = default;
  };

  void plan(PeerCommunicator::Tensors tensors);
  void cut(const std::vector<at::Tensor>& tensors);
  /// Whether a message can be the tensor's own memory.
  static bool lies_alike(PeerCommunicator::Tensors tensors, const Piece& piece);
  void lay_out(Piece& piece, PeerCommunicator::Tensors tensors) const;

  PeerCommunicator& peers_;
  std::size_t piece_bytes_;
  std::vector<std::vector<Layout>> known_;  ///< of the tensors that `pieces_` is for, by device
  std::vector<at::Tensor> memory_;  ///< uint8, by device: what the buffers lie in, one after the other
  std::vector<Piece> pieces_;
};

}  // namespace cxtrain
