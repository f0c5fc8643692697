#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <string_view>

namespace cxtrain {

/// What a precision means for model, forward pass and gradients.
struct PrecisionPolicy {
  std::string name;
  std::optional<at::ScalarType> module_dtype;    ///< parameters, buffers and floating-point inputs (`*-true`)
  std::optional<at::ScalarType> autocast_dtype;  ///< matrix products of the forward pass (`*-mixed`)
  bool scale_gradients = false;                  ///< float16 gradients underflow without a loss scale
  bool batch_norm_in_float32 =
      false;                    ///< of the module's dtype, batch norm's parameters and statistics excepted
  bool master_weights = false;  ///< the optimizer updates float32 copies (master_weights.h)
};

/// Of a canonical name: 32-true, 64-true, bf16-mixed, 16-mixed, bf16-true, 16-true. `amp_level` "O2" makes of
/// 16-mixed what NVIDIA Apex means by it: half weights except batch norm's, float32 master weights in the
/// optimizer, dynamic loss scale; operations that need float32 (losses, softmax) still get it from autocast.
/// Throws ConfigError for other names.
PrecisionPolicy precision_policy(std::string_view name, std::string_view amp_level = "");

}  // namespace cxtrain
