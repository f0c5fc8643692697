#include "cxtrain/reduce/tensor_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/base/align.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
void verify_same_parameters(std::span<const NamedTensor> parameters, World& world) {
  std::vector<std::string> own;
  for (const NamedTensor& parameter : parameters)
    own.push_back(describe(parameter) + (parameter.tensor.requires_grad() ? "" : " (frozen)"));
  if (same_on_all_ranks(world, to_message(own))) return;

  const std::vector<std::vector<std::string>> everyone = gather_values(world, own);
  const std::vector<std::string>& reference = everyone[0];
  for (std::size_t rank = 1; rank < everyone.size(); ++rank) {
    const auto found = first_difference(reference, everyone[rank], "no further parameter");
    if (!found) continue;
    throw AgreedError(ExitCode::failure, MessageCode::ranks_diverged,
                      "the ranks have built different models: parameter " + std::to_string(found->index) +
                          " on rank 0 is `" + found->first + "`, on rank " + std::to_string(rank) +
                          " it is `" + found->second +
                          "`; build one model on every rank (no rank-dependent layers or sizes)");
  }
  throw AgreedError(ExitCode::failure, MessageCode::ranks_diverged,
                    "the ranks disagree about the model's parameters");
}

TensorSync::TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator)
    : communicator_(communicator) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> handles;
  for (const NamedTensor& named : tensors) {
    if (named.tensor.numel() > 0) handles.push_back(named.tensor.detach());
  }
  for_each_dtype_and_device(handles, [&](at::TensorList list) {
    message_on(list[0].device()).parts.push_back({list.vec(), {}});
  });
  for (Message& message : messages_) lay_out(message);
}

TensorSync::Message& TensorSync::message_on(at::Device device) {
  for (Message& message : messages_) {
    if (message.device == device) return message;
  }
  return messages_.emplace_back(Message{device, {}, {}});
}

void TensorSync::lay_out(Message& message) {
  constexpr std::int64_t kAlignment = 16;  // of the largest elements, complex128
  const auto bytes_of = [](const at::Tensor& tensor) { return static_cast<std::int64_t>(tensor.nbytes()); };
  std::int64_t bytes = 0;
  for (const Part& part : message.parts) {
    for (const at::Tensor& tensor : part.tensors) bytes += round_up(bytes_of(tensor), kAlignment);
  }
  message.bytes = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(message.device));
  std::int64_t offset = 0;
  for (Part& part : message.parts) {
    for (const at::Tensor& tensor : part.tensors) {
      const at::Tensor place = message.bytes.narrow(0, offset, bytes_of(tensor));
      part.slices.push_back(place.view(tensor.scalar_type()).view(tensor.sizes()));
      offset += round_up(bytes_of(tensor), kAlignment);
    }
  }
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
  if (messages_.empty()) return;
  const at::NoGradGuard no_grad;
  const bool root = communicator_.rank() == 0;
  for (Message& message : messages_) {
    if (root) {
      for (Part& part : message.parts) at::_foreach_copy_(part.slices, part.tensors);
    }
    communicator_.broadcast(message.bytes, 0);
  }
  communicator_.join();
  if (root) return;
  for (Message& message : messages_) {
    for (Part& part : message.parts) at::_foreach_copy_(part.tensors, part.slices);
  }
}

}  // namespace cxtrain
