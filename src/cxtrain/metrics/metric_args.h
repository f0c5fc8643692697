#pragma once

#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/config/field.h"
#include "cxtrain/config/values.h"

namespace cxtrain {

[[noreturn]] inline void refuse_metric_argument(const char* metric, const char* name,
                                                const std::string& why) {
  throw ConfigError("model", std::string(metric) + ": " + name + " " + why, "", MessageCode::out_of_range);
}

/// Checks the arguments of a metric against the limits of its fields (config/field.h). Throws ConfigError,
/// which names metric and argument.
template <class Args>
Args checked_metric_args(const char* metric, Args args) {
  args.fields([&](const char* name, const auto& value, const char* /*help*/, const auto&... limits) {
    [[maybe_unused]] const auto check = [&](const auto& limit) {
      if constexpr (requires { limit.refuse(static_cast<double>(value)); }) {
        const std::string why = limit.refuse(static_cast<double>(value));
        if (!why.empty()) refuse_metric_argument(metric, name, why);
      }
    };
    (check(limits), ...);
  });
  return args;
}

}  // namespace cxtrain
