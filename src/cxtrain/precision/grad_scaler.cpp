#include "cxtrain/precision/grad_scaler.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "cxtrain/tensor/layout.h"

namespace cxtrain {

GradScaler::GradScaler(at::Device device, Options options)
    : options_(options),
      scale_(at::full({1}, options.initial_scale, at::TensorOptions().dtype(at::kFloat).device(device))),
      inverse_scale_(at::reciprocal(scale_)),
      growth_tracker_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device))),
      found_inf_(at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss.mul(scale_.squeeze().to(loss.device(), scale_.scalar_type(), /*non_blocking=*/true));
}

void GradScaler::unscale(std::span<const at::Tensor> gradients, at::Tensor& found_inf) {
  at::reciprocal_out(inverse_scale_, scale_);
  for_each_dtype_and_device({gradients.data(), gradients.size()}, [&](at::TensorList list) {
    const at::Device device = list[0].device();
    if (device == scale_.device()) {
      return at::_amp_foreach_non_finite_check_and_unscale_(list, found_inf, inverse_scale_);
    }
    at::Tensor found = at::zeros({1}, found_inf_.options().device(device));
    at::_amp_foreach_non_finite_check_and_unscale_(list, found, inverse_scale_.to(device, at::kFloat));
    at::maximum_out(found_inf, found_inf, found.to(scale_.device(), at::kFloat));
  });
}

void GradScaler::note(const at::Tensor& found_inf) { at::maximum_out(found_inf_, found_inf_, found_inf); }

at::Tensor GradScaler::none_found() const { return at::zeros_like(found_inf_); }

void GradScaler::update() {
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
  found_inf_.zero_();
}

void GradScaler::restore(double scale, std::int64_t growth_tracker) {
  scale_.fill_(scale);
  growth_tracker_.fill_(growth_tracker);
}

}  // namespace cxtrain
