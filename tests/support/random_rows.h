#pragma once

#include <ATen/Context.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cxtrain/data/tensor_dataset.h"

namespace cxtrain::test {

/// Samples of normal numbers for `Regression`: inputs [6] and targets [2], the same for a seed in any run.
inline std::shared_ptr<TensorDataset> random_rows(std::int64_t count, std::uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return std::make_shared<TensorDataset>(
      std::vector<at::Tensor>{at::randn({count, 6}, generator), at::randn({count, 2}, generator)});
}

}  // namespace cxtrain::test
