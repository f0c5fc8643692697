#include "cxtrain/checkpoint/compare_weights.h"

#include <ATen/ops/view_as_real.h>
#include <c10/util/StringUtil.h>

#include <map>

#include "cxtrain/checkpoint/torch_dtypes.h"

namespace cxtrain {
namespace {

/// As integers of the same bits, flat: one for each element, or two.
at::Tensor bits_of(const at::Tensor& flat) {
  switch (flat.element_size()) {
    case 1:
      return flat.view(at::kByte);
    case 2:
      return flat.view(at::kShort);
    case 4:
      return flat.view(at::kInt);
    default:
      return flat.view(at::kLong);  // complex128: two
  }
}

/// Real numbers [elements, 1 or 2].
at::Tensor reals_of(const at::Tensor& flat) {
  if (flat.is_complex()) return at::view_as_real(flat).to(at::kDouble);
  return flat.to(at::kDouble).unsqueeze(1);
}

/// Compares two tensors of one shape; whether they differ.
bool compare_values(const at::Tensor& a, const at::Tensor& b, TensorDifference& difference) {
  const at::Tensor x = a.contiguous().view(-1), y = b.contiguous().view(-1);
  if (x.numel() == 0) return false;
  const at::Tensor differs = x.scalar_type() == y.scalar_type()
                                 ? bits_of(x).ne(bits_of(y)).view({x.numel(), -1}).any(1)
                                 : reals_of(x).ne(reals_of(y)).any(1);
  difference.elements = differs.sum().item<std::int64_t>();
  if (difference.elements == 0) return false;
  const at::Tensor values = reals_of(x), others = reals_of(y);
  const at::Tensor distance = values.sub(others).square().sum(1).sqrt().masked_fill(differs.logical_not(), 0);
  difference.largest = distance.max().item<double>();
  std::int64_t first = differs.to(at::kByte).argmax().item<std::int64_t>();
  difference.first_value = values[first][0].item<double>();
  difference.second_value = others[first][0].item<double>();
  difference.at.resize(static_cast<std::size_t>(a.dim()));
  for (std::size_t d = difference.at.size(); d-- > 0; first /= a.size(static_cast<std::int64_t>(d)))
    difference.at[d] = first % a.size(static_cast<std::int64_t>(d));
  return true;
}

}  // namespace

std::string describe(const StoredTensor& tensor) {
  return c10::str(torch_name(tensor.dtype), " ", at::IntArrayRef(tensor.shape));
}

WeightsDifference compare_weights(const StoredWeights& first, const StoredWeights& second) {
  std::map<std::string, const StoredTensor*> others;
  for (const StoredTensor& tensor : second.tensors) others.emplace(tensor.name, &tensor);
  std::map<std::string, const StoredTensor*> own;
  for (const StoredTensor& tensor : first.tensors) own.emplace(tensor.name, &tensor);

  WeightsDifference result;
  for (const auto& [name, tensor] : own) {
    const auto other = others.find(name);
    if (other == others.end()) {
      result.only_first.push_back(name);
      continue;
    }
    TensorDifference difference{name, describe(*tensor), describe(*other->second), 0, 0, {}, 0, 0};
    const bool differ = tensor->shape == other->second->shape &&
                        compare_values(tensor->read(), other->second->read(), difference);
    if (differ || difference.first != difference.second) result.tensors.push_back(std::move(difference));
  }
  for (const auto& [name, tensor] : others) {
    if (!own.contains(name)) result.only_second.push_back(name);
  }
  return result;
}

}  // namespace cxtrain
