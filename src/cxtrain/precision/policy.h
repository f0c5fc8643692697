#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace cxtrain {

/// The effect of a precision on model, forward pass and gradients.
struct PrecisionPolicy {
  std::string name;
  /// Parameters, buffers and floating-point inputs (`*-true`).
  std::optional<at::ScalarType> module_dtype = {};
  std::optional<at::ScalarType> autocast_dtype = {};  ///< matrix products of the forward pass (`*-mixed`)
  bool scale_gradients = false;                       ///< float16 gradients underflow without a loss scale
  bool batch_norm_in_float32 = false;                 ///< `module_dtype` is for all layers except batch norm
  bool master_weights = false;  ///< the optimizer updates float32 copies (ParameterStore)

  /// Returns whether the optimizer updates a float32 copy of a parameter of this dtype.
  bool has_master(at::ScalarType dtype) const {
    return master_weights && c10::elementSize(dtype) < sizeof(float);
  }
};

/// Returns the policy of a canonical name: 32-true, 64-true, bf16-mixed, 16-mixed, bf16-true, 16-true.
/// `amp_level` "O2" turns 16-mixed into NVIDIA Apex's O2: half weights except batch norm's, float32 master
/// weights in the optimizer, dynamic loss scale. Operations that need float32 (losses, softmax) still get it
/// from autocast. Throws ConfigError for other names.
PrecisionPolicy precision_policy(std::string_view name, std::string_view amp_level = "");

/// Turns autocast on for this thread while it lives: for the forward pass and the loss only. Without a dtype
/// it does nothing. The cache of converted weights belongs to the process, and the optimizer step makes it
/// stale. The last of the outermost guards of all threads clears the cache, when no forward pass reads it.
class AutocastGuard {
 public:
  AutocastGuard(c10::DeviceType device, std::optional<c10::ScalarType> dtype);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool active_;
  bool was_enabled_ = false;
  c10::ScalarType previous_dtype_ = c10::ScalarType::Float;
};

/// Turns autocast off for this thread while it lives, and forgets converted weights at its end: for a
/// backward pass and an optimizer step within a forward pass.
class AutocastPause {
 public:
  explicit AutocastPause(c10::DeviceType device);
  ~AutocastPause();
  AutocastPause(const AutocastPause&) = delete;
  AutocastPause& operator=(const AutocastPause&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
};

}  // namespace cxtrain
