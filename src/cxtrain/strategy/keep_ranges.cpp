#include "cxtrain/strategy/keep_ranges.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/local_step.h"
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
    const auto range = ranges_.of.find(prefix + parameter.key());
    if (range == ranges_.of.end()) continue;
    const at::Tensor values = parameter.value().detach();
    std::optional<Piece> part = keep_part(range->first, parameter.value(), range->second);
    if (!part) continue;
    found_nan_ = found_nan_ || has_nan(values);
    kept.push_back(*std::move(part));
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

std::optional<Piece> keep_part(const std::string& name, const at::Tensor& parameter, ElementRange range) {
  const bool divided = parameter.numel() > 1 && range.size() < parameter.numel();
  if (!divided || is_hollow(parameter) || !parameter.is_contiguous() || !parameter.is_floating_point())
    return std::nullopt;
  Piece part = part_of(name, parameter.detach(), range);
  part.values = part.values.clone();
  parameter.set_data(hollow(parameter.sizes(), parameter));
  return part;
}

std::vector<Piece> pieces_here(Trainable& model) {
  std::vector<Piece> here;
  for (const NamedTensor& named : all_tensors(model)) {
    if (!is_hollow(named.tensor)) here.push_back(whole_piece(named.name, named.tensor.detach()));
  }
  if (Blocks* const blocks = model.blocks())
    here.insert(here.end(), blocks->kept().begin(), blocks->kept().end());
  return here;
}

}  // namespace cxtrain
