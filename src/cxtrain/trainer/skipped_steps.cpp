#include "cxtrain/trainer/skipped_steps.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace cxtrain {

SkippedSteps::SkippedSteps(std::int64_t most, at::Device device)
    : most_(most), every_(std::clamp<std::int64_t>(most / 4, 1, 25)) {
  if (!device.is_cpu()) on_device_ = at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(device));
}

bool SkippedSteps::too_many(const at::Tensor& found_inf) {
  if (most_ == 0) return false;
  if (!on_device_.defined()) {
    skipped_ = found_inf.item<float>() == 0 ? 0 : skipped_ + 1;
    return skipped_ >= most_;
  }
  bool too_many = false;
  if (const auto asked = std::exchange(asked_, std::nullopt))
    too_many = asked->wait().front() >= static_cast<double>(most_);
  on_device_.add_(1).mul_(found_inf);
  if (++steps_ % every_ == 0) asked_.emplace(std::vector<at::Tensor>{on_device_});
  return too_many;
}

}  // namespace cxtrain
