#include "cxtrain/precision/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/zeros.h>

#include <map>

namespace cxtrain {

GradScaler::GradScaler(at::Device device, Options options)
    : options_(options),
      scale_(at::full({1}, options.initial_scale, at::TensorOptions().dtype(at::kFloat).device(device))),
      inverse_scale_(at::reciprocal(scale_)),
      growth_tracker_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device))),
      found_inf_(at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

at::Tensor GradScaler::scale(const at::Tensor& loss) const { return loss.mul(scale_.squeeze()); }

void GradScaler::unscale(std::span<const at::Tensor> gradients) {
  found_inf_.zero_();
  at::reciprocal_out(inverse_scale_, scale_);
  // The kernel takes one dtype at a time; models with several are the exception.
  std::map<at::ScalarType, std::vector<at::Tensor>> by_dtype;
  for (const at::Tensor& gradient : gradients) by_dtype[gradient.scalar_type()].push_back(gradient);
  for (auto& [dtype, list] : by_dtype) {
    at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf_, inverse_scale_);
  }
}

void GradScaler::update() {
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
}

double GradScaler::current_scale() const { return scale_.item<double>(); }
std::int64_t GradScaler::growth_tracker() const { return growth_tracker_.item<std::int64_t>(); }

void GradScaler::restore(double scale, std::int64_t growth_tracker) {
  scale_.fill_(scale);
  growth_tracker_.fill_(growth_tracker);
}

}  // namespace cxtrain
