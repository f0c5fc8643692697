#include "averaged_parameters.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
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
  are_apart_ = are_apart_ || apart > 0;
  if (apart > 0 && apart % schedule_.period == 0) unite();
}

void AveragedParameters::unite() {
  if (!std::exchange(are_apart_, false)) return;
  std::vector<at::Tensor> values;
  for (const Piece& piece : pieces()) values.push_back(piece.values.detach());
  begin_update();
  average(values);
  publish();
  if (buffers_ != nullptr) buffers_->broadcast();
}

void AveragedParameters::average(std::span<const at::Tensor> tensors) {
  constexpr std::int64_t kMessageBytes = std::int64_t{16} << 20;
  const at::NoGradGuard no_grad;
  for_each_dtype_and_device({tensors.data(), tensors.size()}, [&](at::TensorList kind) {
    std::int64_t all = 0;
    for (const at::Tensor& tensor : kind) all += tensor.numel();
    const std::int64_t most =
        std::min(all, kMessageBytes / static_cast<std::int64_t>(kind[0].element_size()));
    if (most == 0) return;
    const at::Tensor message = ranks_.alike.allocate(most, kind[0].scalar_type(), kind[0].device());
    std::vector<at::Tensor> parts;
    std::int64_t free = most;
    for (const at::Tensor& tensor : kind) {
      const at::Tensor flat = tensor.contiguous().view(-1);
      for (std::int64_t begin = 0; begin < flat.numel();) {
        const std::int64_t size = std::min(free, flat.numel() - begin);
        parts.push_back(flat.narrow(0, begin, size));
        begin += size;
        free -= size;
        if (free > 0) continue;
        average_parts(parts, message);
        free = most;
      }
      if (!tensor.is_contiguous()) {
        average_parts(parts, message);
        free = most;
        at::Tensor(tensor).copy_(flat.view(tensor.sizes()));
      }
    }
    average_parts(parts, message);
  });
}

void AveragedParameters::average_parts(std::vector<at::Tensor>& parts, const at::Tensor& message) {
  std::int64_t used = 0;
  std::vector<at::Tensor> places;
  for (const at::Tensor& part : parts) {
    places.push_back(message.narrow(0, std::exchange(used, used + part.numel()), part.numel()));
    places.back().copy_(part);
  }
  if (used > 0) ranks_.alike.all_reduce(message.narrow(0, 0, used), ReduceOp::avg);
  ranks_.alike.join();
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy_(places[i]);
  parts.clear();
}

}  // namespace cxtrain
