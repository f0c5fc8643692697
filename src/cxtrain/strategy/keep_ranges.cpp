#include "cxtrain/strategy/keep_ranges.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

thread_local KeepRanges* of_this_thread = nullptr;

bool has_nan(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.numel() > 0 && tensor.sum().isnan().item<bool>();
}

}  // namespace

KeepRanges::KeepRanges(KeptRanges ranges, Finish finish)
    : ranges_(std::move(ranges)), finish_(std::move(finish)) {
  of_this_thread = this;
}

KeepRanges::~KeepRanges() { of_this_thread = nullptr; }

KeepRanges* KeepRanges::current() { return of_this_thread; }

std::vector<Piece> KeepRanges::keep(torch::nn::Module& block, const std::string& name) {
  const at::NoGradGuard no_grad;
  const std::string prefix = name + ".";
  finish_(block, prefix);
  std::vector<Piece> kept;
  for (const auto& parameter : block.named_parameters()) {
    at::Tensor tensor = parameter.value();
    if (is_hollow(tensor)) continue;
    const auto range = ranges_.of.find(prefix + parameter.key());
    const bool divided = range != ranges_.of.end() && range->second.size() < tensor.numel();
    if (!divided || tensor.numel() == 1 || !tensor.is_contiguous() || !tensor.is_floating_point()) continue;
    found_nan_ = found_nan_ || has_nan(tensor);
    Piece piece = part_of(range->first, tensor.detach(), range->second);
    piece.values = piece.values.clone();
    kept.push_back(std::move(piece));
    tensor.set_data(hollow(tensor.sizes(), tensor));
  }
  return kept;
}

bool KeepRanges::left_alone(const torch::nn::Module& model) const {
  const at::NoGradGuard no_grad;
  if (found_nan_) return false;
  for (const at::Tensor& parameter : model.parameters()) {
    const bool is_nan = has_nan(is_hollow(parameter) ? parameter.as_strided({}, {}) : parameter);
    if (is_nan != is_hollow(parameter)) return false;
  }
  return true;
}

}  // namespace cxtrain
