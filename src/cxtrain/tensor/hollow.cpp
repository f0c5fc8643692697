#include "cxtrain/tensor/hollow.h"

#include <ATen/ops/zeros.h>

#include <limits>

namespace cxtrain {

at::Tensor hollow(at::IntArrayRef sizes, const at::Tensor& like) {
  const at::Tensor element = at::zeros({}, like.options().requires_grad(false));
  if (element.is_floating_point()) element.fill_(std::numeric_limits<double>::quiet_NaN());
  return element.expand(sizes);
}

}  // namespace cxtrain
