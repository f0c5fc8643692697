#include "cxtrain/tensor/tensor_kinds.h"

#include <algorithm>
#include <vector>

namespace cxtrain {
namespace {

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

}  // namespace

void for_each_kind(at::TensorList tensors, const std::function<void(at::TensorList)>& work) {
  if (tensors.empty()) return;
  if (std::all_of(tensors.begin(), tensors.end(),
                  [&](const at::Tensor& tensor) { return same_kind(tensor, tensors[0]); })) {
    return work(tensors);
  }
  std::vector<std::vector<at::Tensor>> kinds;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    const auto kind = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& list) { return same_kind(list.front(), tensor); });
    if (kind == kinds.end()) {
      kinds.push_back({tensor});
    } else {
      kind->push_back(tensor);
    }
  }
  for (const std::vector<at::Tensor>& kind : kinds) work(kind);
}

}  // namespace cxtrain
