#include "averaged_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>

#include <utility>

#include "cxtrain/tensor/layout.h"

namespace cxtrain {

/// The nodes have different gradients, and one loss scale.
void AveragedParameters::agree_on_overflow(const at::Tensor& found) {
  of_node_->agree_on_overflow(found);
  ranks_.all.all_reduce(found, ReduceOp::max);
  ranks_.all.join();
}

void AveragedParameters::end_step(std::int64_t step) {
  const std::int64_t apart = step - schedule_.start;
  if (apart == 0 && outer_) outer_->begin_at(pieces());
  are_apart_ = are_apart_ || apart > 0;
  if (apart > 0 && apart % schedule_.period == 0) meet(/*ends_period=*/true);
}

void AveragedParameters::meet(bool ends_period) {
  are_apart_ = false;
  const std::vector<at::Tensor> values = values_of(pieces());
  begin_update();
  average(values);
  if (outer_ && ends_period) outer_->apply(pieces());
  publish();
  if (buffers_ != nullptr) buffers_->broadcast();
}

void AveragedParameters::average(std::span<const at::Tensor> tensors) {
  constexpr std::size_t kMessageBytes = std::size_t{16} << 20;
  const at::NoGradGuard no_grad;
  for_each_dtype_and_device({tensors.data(), tensors.size()}, [&](at::TensorList kind) {
    at::Tensor message;
    std::vector<at::Tensor> part;
    std::size_t bytes = 0;
    for (const at::Tensor& tensor : kind) {
      part.push_back(tensor);
      bytes += tensor.nbytes();
      if (bytes < kMessageBytes && &tensor != &kind.back()) continue;
      average_together(part, message);
      part.clear();
      bytes = 0;
    }
  });
}

void AveragedParameters::average_together(const std::vector<at::Tensor>& tensors, at::Tensor& message) {
  std::int64_t elements = 0;
  for (const at::Tensor& tensor : tensors) elements += tensor.numel();
  if (elements == 0) return;
  const at::Tensor& first = tensors.front();
  if (!message.defined() || message.numel() < elements)
    message = ranks_.alike.allocate(elements, first.scalar_type(), first.device());
  std::vector<at::Tensor> places;
  std::int64_t used = 0;
  for (const at::Tensor& tensor : tensors)
    places.push_back(slice_like(message, std::exchange(used, used + tensor.numel()), tensor));
  at::_foreach_copy_(places, tensors);
  ranks_.alike.all_reduce(message.narrow(0, 0, elements), ReduceOp::avg);
  ranks_.alike.join();
  at::_foreach_copy_(at::TensorList(tensors), places);
}

}  // namespace cxtrain
