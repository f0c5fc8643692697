#include "cxtrain/tensor/hollow.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace cxtrain {

at::Tensor hollow(at::IntArrayRef sizes, const at::Tensor& like) {
  const at::Tensor element = at::zeros({}, like.options().requires_grad(false));
  if (element.is_floating_point()) element.fill_(std::numeric_limits<double>::quiet_NaN());
  return element.expand(sizes);
}

bool is_hollow(const at::Tensor& tensor) {
  const auto is_zero = [](std::int64_t stride) { return stride == 0; };
  return tensor.numel() > 1 && std::ranges::all_of(tensor.strides(), is_zero);
}

}  // namespace cxtrain
