#include "cxtrain/precision/policy.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// Threads that are under an AutocastGuard.
std::atomic<int> autocast_threads = 0;

}  // namespace

PrecisionPolicy precision_policy(std::string_view name, std::string_view amp_level) {
  static const std::array kKnown{
      PrecisionPolicy{.name = "32-true"},
      PrecisionPolicy{.name = "64-true", .module_dtype = at::kDouble},
      PrecisionPolicy{.name = "bf16-true", .module_dtype = at::kBFloat16},
      PrecisionPolicy{.name = "16-true", .module_dtype = at::kHalf},
      PrecisionPolicy{.name = "bf16-mixed", .autocast_dtype = at::kBFloat16},
      PrecisionPolicy{.name = "16-mixed", .autocast_dtype = at::kHalf, .scale_gradients = true}};
  const auto found = std::ranges::find(kKnown, name, &PrecisionPolicy::name);
  if (found == kKnown.end()) {
    throw ConfigError("trainer.precision", "`" + std::string(name) + "` is not a precision",
                      "32-true, 64-true, bf16-mixed, 16-mixed, bf16-true, 16-true",
                      MessageCode::unknown_name);
  }
  PrecisionPolicy policy = *found;
  if (name == "16-mixed" && amp_level == "O2") {
    policy.module_dtype = at::kHalf;
    policy.batch_norm_in_float32 = true;
    policy.master_weights = true;
  }
  return policy;
}

AutocastGuard::AutocastGuard(c10::DeviceType device, std::optional<c10::ScalarType> dtype)
    : device_(device), active_(dtype.has_value()) {
  if (!active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_dtype_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *dtype);
  if (at::autocast::increment_nesting() == 1) ++autocast_threads;
}

AutocastGuard::~AutocastGuard() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0 && --autocast_threads == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_enabled(device_, was_enabled_);
}

AutocastPause::AutocastPause(c10::DeviceType device)
    : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
  at::autocast::set_autocast_enabled(device_, false);
}

AutocastPause::~AutocastPause() {
  if (!was_enabled_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, true);
}

}  // namespace cxtrain
