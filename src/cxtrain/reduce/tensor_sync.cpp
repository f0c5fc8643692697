#include "cxtrain/reduce/tensor_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include "cxtrain/tensor/tensor_kinds.h"

namespace cxtrain {

TensorSync::TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator)
    : communicator_(communicator) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> handles;
  for (const NamedTensor& named : tensors) handles.push_back(named.tensor.detach());
  for_each_kind(handles, [&](at::TensorList list) {
    std::int64_t numel = 0;
    for (const at::Tensor& tensor : list) numel += tensor.numel();
    if (numel == 0) return;
    Group group{list.vec(), {}, at::empty({numel}, list[0].options())};
    std::int64_t offset = 0;
    for (const at::Tensor& tensor : group.tensors) {
      group.places.push_back(group.flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      offset += tensor.numel();
    }
    groups_.push_back(std::move(group));
  });
}

void TensorSync::broadcast_once(const std::vector<NamedTensor>& tensors, Communicator& communicator) {
  constexpr std::size_t kPiece = std::size_t{32} << 20;
  std::vector<NamedTensor> piece;
  std::size_t bytes = 0;
  for (const NamedTensor& named : tensors) {
    piece.push_back(named);
    bytes += named.tensor.nbytes();
    if (bytes < kPiece && &named != &tensors.back()) continue;
    TensorSync(piece, communicator).broadcast();
    piece.clear();
    bytes = 0;
  }
}

void TensorSync::broadcast() {
  if (groups_.empty()) return;
  const at::NoGradGuard no_grad;
  const bool root = communicator_.rank() == 0;
  for (Group& group : groups_) {
    if (root) at::_foreach_copy_(group.places, group.tensors);
    communicator_.broadcast(group.flat, 0);
  }
  communicator_.join();
  if (root) return;
  for (Group& group : groups_) at::_foreach_copy_(group.tensors, group.places);
}

}  // namespace cxtrain
