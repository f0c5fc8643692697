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
};

/// Of a canonical name: 32-true, 64-true, bf16-mixed, 16-mixed, bf16-true, 16-true. Throws ConfigError for
/// others.
PrecisionPolicy precision_policy(std::string_view name);

}  // namespace cxtrain
