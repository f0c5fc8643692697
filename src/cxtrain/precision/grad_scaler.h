#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace cxtrain {

/// Dynamic loss scaling for float16 gradients; defaults of torch.amp.GradScaler.
///
/// A step: backward of `scale(loss)`; for each optimizer `unscale(gradients, found_inf)`, `note(found_inf)`,
/// and an optimizer step that is skipped if `found_inf` is 1; `update()`. All state stays on the device and
/// nothing synchronises with the host. Ranks agree without a message: they scale alike, and an overflow on
/// one rank makes the averaged gradients of all ranks infinite or NaN.
class GradScaler {
 public:
  struct Options {
    double initial_scale = 65536;
    double growth_factor = 2;
    double backoff_factor = 0.5;
    std::int64_t growth_interval = 2000;
  };
  GradScaler(at::Device device, Options options);
  explicit GradScaler(at::Device device) : GradScaler(device, Options{}) {}

  /// Returns the scaled loss. `loss` may be on another device than the scaler.
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients, on any devices, by the scale, in place. Sets `found_inf` to 1 if a gradient is
  /// not finite; float32 [1] on the scaler's device.
  void unscale(std::span<const at::Tensor> gradients, at::Tensor& found_inf);
  /// Notes an overflow until `update`, if `found_inf` is 1.
  void note(const at::Tensor& found_inf);
  /// 1 if an overflow was noted since the last `update`, else 0; float32 [1].
  const at::Tensor& noted() const { return found_inf_; }
  /// Returns a new `found_inf` that is 0.
  at::Tensor none_found() const;
  /// Multiplies the scale by `backoff_factor` after an overflow, and by `growth_factor` after
  /// `growth_interval` steps without one. Gradients of one scale are all unscaled by then.
  void update();

  /// For checkpoints and logs; these synchronise with the host.
  double current_scale() const { return scale_.item<double>(); }
  std::int64_t growth_tracker() const { return growth_tracker_.item<std::int64_t>(); }
  void restore(double scale, std::int64_t growth_tracker);

 private:
  Options options_;
  at::Tensor scale_;           ///< float32 [1]
  at::Tensor inverse_scale_;   ///< float32 [1]
  at::Tensor growth_tracker_;  ///< int32 [1]
  at::Tensor found_inf_;       ///< float32 [1]
};

}  // namespace cxtrain
