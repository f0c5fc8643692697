#include "shared_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <algorithm>
#include <array>

#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {
namespace {

/// Fewer elements than this are summed faster than threads are woken.
constexpr std::size_t kWorthThreads = 1 << 15;

bool is_plain_memory(const std::vector<at::Tensor>& gradients) {
  const at::Tensor& first = gradients.front();
  return std::all_of(gradients.begin(), gradients.end(), [&](const at::Tensor& gradient) {
    return gradient.layout() == at::kStrided && gradient.is_cpu() &&
           gradient.is_non_overlapping_and_dense() && gradient.strides() == first.strides() &&
           gradient.scalar_type() == first.scalar_type() && has_reduce_kernel(first.scalar_type());
  });
}

}  // namespace

SharedExchange::SharedExchange(std::vector<Replica>& replicas, ReplicaThreads& threads)
    : replicas_(replicas), threads_(threads) {
  for (std::size_t r = 1; r < replicas.size(); ++r) {
    for (std::size_t i = 0; i < replicas[r].parameters.size(); ++i) {
      replicas[r].parameters[i].tensor.set_data(replicas[0].parameters[i].tensor.detach());
    }
  }
}

std::string SharedExchange::description() const {
  return std::to_string(replicas_.size()) + " replicas over one copy of the parameters on " +
         replicas_[0].device.str();
}

void SharedExchange::send_buffers(std::size_t count) {
  if (replicas_[0].buffers.empty() || count < 2) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> to, from;
  for (std::size_t r = 1; r < count; ++r) {
    for (std::size_t i = 0; i < replicas_[r].buffers.size(); ++i) {
      to.push_back(replicas_[r].buffers[i].tensor);
      from.push_back(replicas_[0].buffers[i].tensor);
    }
  }
  at::_foreach_copy_(to, from);
}

void SharedExchange::collect() {
  sums_.clear();
  elements_ = 0;
  for (std::size_t i = 0; i < replicas_[0].parameters.size(); ++i) {
    std::vector<at::Tensor> gradients;
    for (Replica& replica : replicas_) {
      at::Tensor& gradient = replica.parameters[i].tensor.mutable_grad();
      if (gradient.defined()) gradients.push_back(std::exchange(gradient, {}));
    }
    if (gradients.empty()) continue;
    replicas_[0].parameters[i].tensor.mutable_grad() = gradients.front();
    if (gradients.size() == 1) continue;
    if (!is_plain_memory(gradients)) {
      for (std::size_t r = 1; r < gradients.size(); ++r) gradients.front().add_(gradients[r]);
      continue;
    }
    Sum& sum = sums_.emplace_back();
    for (const at::Tensor& gradient : gradients) {
      sum.memory.push_back(static_cast<const std::byte*>(gradient.const_data_ptr()));
    }
    sum.begin = elements_;
    elements_ += static_cast<std::size_t>(gradients.front().numel());
    sum.gradients = std::move(gradients);
  }
}

void SharedExchange::add_up(std::size_t begin, std::size_t end) const {
  std::vector<const std::byte*> sources;
  for (const Sum& sum : sums_) {
    const auto count = static_cast<std::size_t>(sum.gradients[0].numel());
    const std::size_t from = std::max(begin, sum.begin), to = std::min(end, sum.begin + count);
    if (from >= to) continue;
    const std::size_t offset = (from - sum.begin) * sum.gradients[0].element_size();
    sources.clear();
    for (const std::byte* memory : sum.memory) sources.push_back(memory + offset);
    const std::array target{static_cast<std::byte*>(sum.gradients[0].mutable_data_ptr()) + offset};
    reduce_elements(sum.gradients[0].scalar_type(), ReduceOp::sum, sources, target, to - from, 1);
  }
}

void SharedExchange::sum_gradients() {
  const at::NoGradGuard no_grad;
  collect();
  if (elements_ < kWorthThreads) {
    add_up(0, elements_);
  } else {
    const std::size_t threads = threads_.size();
    threads_.run(threads,
                 [&](std::size_t i) { add_up(elements_ * i / threads, elements_ * (i + 1) / threads); });
  }
  sums_.clear();  // and with it the replicas' gradients
}

}  // namespace cxtrain
