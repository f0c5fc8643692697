#include "peer_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "cxtrain/tensor/layout.h"

namespace cxtrain {

std::string PeerExchange::description() const {
  return std::to_string(replicas_.size()) + " replicas in one process, " + peers_->description() +
         " between their devices";
}

void PeerExchange::send_parameters() {
  const std::vector<NamedTensor>& primary = replicas_.front().parameters;
  const bool first = sent_versions_.empty();
  sent_versions_.resize(primary.size());
  std::vector<std::vector<at::Tensor>> tensors(replicas_.size());
  for (std::size_t i = 0; i < primary.size(); ++i) {
    const std::int64_t version = primary[i].tensor._version();
    const bool written = std::exchange(sent_versions_[i], version) != version;
    if (!first && !written && !primary[i].tensor.requires_grad()) continue;
    for (std::size_t r = 0; r < replicas_.size(); ++r)
      tensors[r].push_back(replicas_[r].parameters[i].tensor);
  }
  parameters_.broadcast(tensors);
}

void PeerExchange::send_buffers(std::size_t) {
  std::vector<std::vector<at::Tensor>> tensors(replicas_.size());
  for (std::size_t r = 0; r < replicas_.size(); ++r) {
    for (const NamedTensor& buffer : replicas_[r].buffers) tensors[r].push_back(buffer.tensor);
  }
  buffers_.broadcast(tensors);
}

void PeerExchange::sum_gradients() {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<at::Tensor>> gradients(replicas_.size());
  for (std::size_t i = 0; i < replicas_[0].parameters.size(); ++i) {
    const auto has_gradient = [i](const Replica& r) { return r.parameters[i].tensor.grad().defined(); };
    if (std::none_of(replicas_.begin(), replicas_.end(), has_gradient)) continue;
    for (std::size_t r = 0; r < replicas_.size(); ++r) {
      at::Tensor& parameter = replicas_[r].parameters[i].tensor;
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
      gradients[r].push_back(laid_out_like(parameter, parameter.grad()));
    }
    replicas_[0].parameters[i].tensor.mutable_grad() = gradients[0].back();
  }
  gradients_.reduce(gradients);
  for (std::size_t r = 1; r < replicas_.size(); ++r) {
    for (NamedTensor& parameter : replicas_[r].parameters) parameter.tensor.mutable_grad().reset();
  }
}

}  // namespace cxtrain
