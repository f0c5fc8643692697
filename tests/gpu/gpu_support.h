#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <c10/cuda/CUDAFunctions.h>

#include <string>
#include <vector>

#include "cxtrain/tensor/piece.h"
#include "support/catch.h"
#include "support/skip.h"
#include "support/toy_models.h"

namespace cxtrain::test {

inline const at::Device kGpu{at::kCUDA, 0};

/// Whether the case can have two GPUs; where not, it counts as skipped.
inline bool has_two_gpus() {
  const int gpus = c10::cuda::device_count();
  if (gpus < 2) skip("it needs two GPUs, and this machine shows " + std::to_string(gpus));
  return gpus >= 2;
}

/// Options of a training of 20 steps in this process, without files, on the first GPUs.
inline Options on_gpus(const std::string& strategy, int gpus) {
  Options options = quiet("");
  options.trainer.accelerator = "gpu";
  options.trainer.strategy = strategy;
  options.trainer.devices = std::to_string(gpus);
  options.trainer.max_steps = 20;
  options.trainer.max_epochs = -1;
  options.trainer.logger = false;
  return options;
}

/// A small classifier and a batch for it, with the same numbers on every device.
struct SmallNet {
  std::vector<NamedTensor> parameters;
  at::Tensor inputs;   ///< float32 [64, 32]
  at::Tensor classes;  ///< int64 [64]

  explicit SmallNet(at::Device device) {
    at::manual_seed(11);
    const auto add = [&](const std::string& name, const at::Tensor& start) {
      parameters.push_back({name, start.mul(0.2).to(device).set_requires_grad(true)});
    };
    add("hidden.weight", at::randn({48, 32}));
    add("hidden.bias", at::randn({48}));
    add("middle.weight", at::randn({40, 48}));
    add("middle.bias", at::randn({40}));
    add("output.weight", at::randn({10, 40}));
    add("output.bias", at::randn({10}));
    inputs = at::randn({64, 32}).to(device);
    classes = at::randint(10, {64}, at::kLong).to(device);
  }

  at::Tensor logits() const {
    at::Tensor x = at::relu(at::linear(inputs, parameters[0].tensor, parameters[1].tensor));
    x = at::relu(at::linear(x, parameters[2].tensor, parameters[3].tensor));
    return at::linear(x, parameters[4].tensor, parameters[5].tensor);
  }
  at::Tensor loss() const { return at::cross_entropy_loss(logits(), classes); }
};

}  // namespace cxtrain::test
