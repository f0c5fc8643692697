#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace cxtrain {

/// The call of the trainer. `tune`: `Trainer::lr_find` and `Trainer::scale_batch_size`.
enum class Stage { fit, tune, validate, test, predict };

/// "fit", "tune", "validate", "test", "predict".
constexpr std::string_view name_of(Stage stage) {
  constexpr std::array<std::string_view, 5> kNames{"fit", "tune", "validate", "test", "predict"};
  return kNames[static_cast<std::size_t>(stage)];
}

}  // namespace cxtrain
