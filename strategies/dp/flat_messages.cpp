#include "flat_messages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "cxtrain/base/align.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

constexpr std::size_t kAlignment = 16;  // of the loads and stores of ATen's kernels

/// Of each device those that travel in a piece.
std::vector<std::vector<at::Tensor>> members_of(PeerCommunicator::Tensors tensors,
                                                const std::vector<std::size_t>& members) {
  return transformed(tensors, [&](const std::vector<at::Tensor>& list) {
    return transformed(members, [&](std::size_t member) { return list[member]; });
  });
}

}  // namespace

void FlatMessages::broadcast(PeerCommunicator::Tensors tensors) {
  const at::NoGradGuard no_grad;
  plan(tensors);
  for (const Piece& piece : pieces_) {
    const Lists own = members_of(tensors, piece.members);
    if (piece.slices.empty()) {
      peers_.broadcast(own);
      continue;
    }
    at::_foreach_copy_(piece.slices[0], own[0]);
    peers_.broadcast(piece.buffers);
    for (std::size_t m = 1; m < own.size(); ++m) at::_foreach_copy_(own[m], piece.slices[m]);
  }
}

void FlatMessages::reduce(PeerCommunicator::Tensors tensors) {
  const at::NoGradGuard no_grad;
  plan(tensors);
  for (const Piece& piece : pieces_) {
    const Lists own = members_of(tensors, piece.members);
    if (piece.slices.empty()) {
      peers_.reduce(own);
      continue;
    }
    for (std::size_t m = 0; m < own.size(); ++m) at::_foreach_copy_(piece.slices[m], own[m]);
    peers_.reduce(piece.buffers);
    at::_foreach_copy_(own[0], piece.slices[0]);
  }
}

void FlatMessages::plan(PeerCommunicator::Tensors tensors) {
  auto found = transformed(tensors, [](const std::vector<at::Tensor>& list) {
    return transformed(list, [](const at::Tensor& tensor) {
      return Layout{tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type()};
    });
  });
  if (found == known_) return;
  known_.clear();
  pieces_.clear();
  memory_.clear();
  cut(tensors[0]);
  const auto is_copied = [&](const Piece& piece) { return !lies_alike(tensors, piece); };
  std::size_t bytes = 0;
  for (const Piece& piece : pieces_) {
    if (is_copied(piece)) bytes = std::max(bytes, piece.bytes);
  }
  const auto size = static_cast<std::int64_t>(bytes);
  for (const std::vector<at::Tensor>& list : tensors) {
    if (list.empty()) continue;
    memory_.push_back(at::empty({size}, at::TensorOptions().dtype(at::kByte).device(list[0].device())));
  }
  for (Piece& piece : pieces_) {
    if (is_copied(piece)) lay_out(piece, tensors);
  }
  known_ = std::move(found);
}

void FlatMessages::cut(const std::vector<at::Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].numel() == 0) continue;
    const at::ScalarType dtype = tensors[i].scalar_type();
    const std::size_t bytes = round_up(tensors[i].nbytes(), kAlignment);
    auto open = std::find_if(pieces_.rbegin(), pieces_.rend(),
                             [&](const Piece& piece) { return piece.dtype == dtype; });
    if (open == pieces_.rend() || open->bytes + bytes > piece_bytes_) {
      pieces_.push_back({dtype, {}, 0, {}, {}});
      open = pieces_.rbegin();
    }
    open->members.push_back(i);
    open->bytes += bytes;
  }
}

bool FlatMessages::lies_alike(PeerCommunicator::Tensors tensors, const Piece& piece) {
  if (piece.members.size() > 1) return false;
  const at::Tensor& first = tensors[0][piece.members[0]];
  return first.is_non_overlapping_and_dense() && std::ranges::all_of(tensors, [&](auto& list) {
           return list[piece.members[0]].strides() == first.strides();
         });
}

void FlatMessages::lay_out(Piece& piece, PeerCommunicator::Tensors tensors) const {
  for (const at::Tensor& memory : memory_) {
    const at::Tensor buffer = memory.narrow(0, 0, static_cast<std::int64_t>(piece.bytes)).view(piece.dtype);
    std::vector<at::Tensor> slices;
    std::int64_t offset = 0;
    for (const std::size_t member : piece.members) {
      const at::Tensor& model = tensors[0][member];
      slices.push_back(slice_like(buffer, offset, model));
      offset += static_cast<std::int64_t>(round_up(model.nbytes(), kAlignment) / model.element_size());
    }
    piece.slices.push_back(std::move(slices));
    piece.buffers.push_back({buffer});
  }
}

}  // namespace cxtrain
