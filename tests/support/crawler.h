#pragma once

#include <ATen/ops/full.h>

#include "support/toy_models.h"

namespace cxtrain::test {

/// One weight at 1 whose gradient is 1, times a learning rate of 2^-13. Float16 near 1 has steps of 2^-11
/// below and 2^-10 above: a single update is rounded away, eight of them are not.
class Crawler : public Module {
 public:
  Crawler() { weight = register_parameter("weight", at::full({1}, 1.0)); }
  StepOutput training_step(const Batch&, std::int64_t) override { return weight.sum(); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 1.0 / 8192}; }
  at::Tensor weight;
};

}  // namespace cxtrain::test
