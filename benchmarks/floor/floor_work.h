#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "floor/floor_adam.h"

/// A model with its data and optimizer for the hand-written loop: the same networks, samples, batch sizes and
/// hyperparameters as the examples have by default.
struct FloorWork {
  std::int64_t samples = 0;
  std::int64_t batch_size = 0;
  /// The loss on the samples of an index, int64 [B].
  std::function<at::Tensor(const at::Tensor& index)> loss;
  std::function<FloorAdam()> make_optimizer;
};

/// `model`: simple, mlp, cnn or gpt. `data`: the folder of MNIST's unpacked files, or the text file. Throws
/// std::runtime_error for another model and for data that cannot be read.
FloorWork make_floor_work(const std::string& model, const std::string& data, std::int64_t batch_size);
