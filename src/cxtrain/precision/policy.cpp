#include "cxtrain/precision/policy.h"

#include "cxtrain/base/error.h"

namespace cxtrain {

PrecisionPolicy precision_policy(std::string_view name, std::string_view amp_level) {
  PrecisionPolicy policy;
  policy.name = name;
  if (name == "32-true") return policy;
  if (name == "64-true") {
    policy.module_dtype = at::kDouble;
  } else if (name == "bf16-true") {
    policy.module_dtype = at::kBFloat16;
  } else if (name == "16-true") {
    policy.module_dtype = at::kHalf;
  } else if (name == "bf16-mixed") {
    policy.autocast_dtype = at::kBFloat16;
  } else if (name == "16-mixed") {
    policy.autocast_dtype = at::kHalf;
    policy.scale_gradients = true;
    if (amp_level == "O2") {
      policy.module_dtype = at::kHalf;
      policy.batch_norm_in_float32 = true;
      policy.master_weights = true;
    }
  } else {
    throw ConfigError("trainer.precision", "`" + std::string(name) + "` is no precision",
                      "32-true, 64-true, bf16-mixed, 16-mixed, bf16-true, 16-true");
  }
  return policy;
}

}  // namespace cxtrain
