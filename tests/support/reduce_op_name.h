#pragma once

#include <array>
#include <cstddef>

#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain::test {

inline const char* name_of(ReduceOp op) {
  constexpr std::array kNames{"sum", "avg", "min", "max"};  // in the order of ReduceOp
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace cxtrain::test
