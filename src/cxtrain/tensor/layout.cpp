#include "cxtrain/tensor/layout.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

namespace cxtrain {

bool same_dtype_and_device(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

at::Tensor laid_out_like(const at::Tensor& parameter, const at::Tensor& gradient) {
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter, gradient.options()).copy_(gradient);
}

at::Tensor slice_like(const at::Tensor& flat, std::int64_t offset, const at::Tensor& model) {
  if (!model.is_non_overlapping_and_dense()) return flat.narrow(0, offset, model.numel()).view(model.sizes());
  return flat.as_strided(model.sizes(), model.strides(), flat.storage_offset() + offset);
}

at::Tensor with_channels_last(const at::Tensor& tensor) {
  return tensor.dim() == 4 ? tensor.contiguous(at::MemoryFormat::ChannelsLast) : tensor;
}

void for_each_dtype_and_device(at::TensorList tensors, const std::function<void(at::TensorList)>& work) {
  if (tensors.empty()) return;
  if (std::ranges::all_of(
          tensors, [&](const at::Tensor& tensor) { return same_dtype_and_device(tensor, tensors[0]); })) {
    return work(tensors);
  }
  std::vector<std::vector<at::Tensor>> lists;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const auto list = std::ranges::find_if(
        lists, [&](const auto& known) { return same_dtype_and_device(known.front(), tensor); });
    if (list == lists.end()) {
      lists.push_back({tensor});
    } else {
      list->push_back(tensor);
    }
  }
  for (const std::vector<at::Tensor>& list : lists) work(list);
}

}  // namespace cxtrain
