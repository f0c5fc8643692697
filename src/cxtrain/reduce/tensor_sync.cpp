#include "cxtrain/reduce/tensor_sync.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void verify_same_parameters(std::span<const NamedTensor> parameters, World& world) {
  std::string own;
  for (const NamedTensor& parameter : parameters) {
    own += describe(parameter) + (parameter.tensor.requires_grad() ? "" : " (frozen)") + "\n";
  }
  // Equal hashes everywhere: the largest is as large as the smallest.
  const auto hash = static_cast<std::int64_t>(std::hash<std::string>{}(own) >> 2);
  const std::int64_t largest = world.max(hash), smallest = -world.max(-hash);
  if (largest == smallest) return;

  const std::vector<std::string> everyone = world.all_gather(own);
  const std::vector<std::string> reference = lines_of(everyone[0]);
  for (std::size_t rank = 1; rank < everyone.size(); ++rank) {
    const auto found = first_difference(reference, lines_of(everyone[rank]), "no further parameter");
    if (!found) continue;
    throw AgreedError(ExitCode::failure,
                      "the ranks have built different models: parameter " + std::to_string(found->index) +
                          " on rank 0 is `" + found->first + "`, on rank " + std::to_string(rank) +
                          " it is `" + found->second +
                          "`; build the same model on every rank (no rank-dependent layers or sizes)");
  }
  throw AgreedError(ExitCode::failure, "the ranks disagree about the model's parameters");
}

TensorSync::TensorSync(const std::vector<NamedTensor>& tensors, Communicator& communicator)
    : communicator_(communicator) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> handles;
  for (const NamedTensor& named : tensors) handles.push_back(named.tensor.detach());
  for_each_dtype_and_device(handles, [&](at::TensorList list) {
    std::int64_t numel = 0;
    for (const at::Tensor& tensor : list) numel += tensor.numel();
    if (numel == 0) return;
    Message message{list.vec(), {}, at::empty({numel}, list[0].options())};
    std::int64_t offset = 0;
    for (const at::Tensor& tensor : message.tensors) {
      message.slices.push_back(message.flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
      offset += tensor.numel();
    }
    messages_.push_back(std::move(message));
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
  if (messages_.empty()) return;
  const at::NoGradGuard no_grad;
  const bool root = communicator_.rank() == 0;
  for (Message& message : messages_) {
    if (root) at::_foreach_copy_(message.slices, message.tensors);
    communicator_.broadcast(message.flat, 0);
  }
  communicator_.join();
  if (root) return;
  for (Message& message : messages_) at::_foreach_copy_(message.tensors, message.slices);
}

}  // namespace cxtrain
