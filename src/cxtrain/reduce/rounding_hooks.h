#pragma once

#include "cxtrain/reduce/comm_hook.h"

namespace cxtrain {

/// `bf16`; torch's bf16_compress_hook.
class Bf16Hook final : public RoundingHook {
 public:
  at::ScalarType dtype() const override { return at::kBFloat16; }
};

/// `fp16`; torch's fp16_compress_hook.
class Fp16Hook final : public RoundingHook {
 public:
  at::ScalarType dtype() const override { return at::kHalf; }
};

/// `auto`.
class LateBf16Hook final : public RoundingHook {
 public:
  at::ScalarType dtype() const override { return at::kBFloat16; }
  bool only_late() const override { return true; }
};

}  // namespace cxtrain
