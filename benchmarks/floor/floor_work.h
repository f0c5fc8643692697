#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "floor/floor_adam.h"
#include "gpt/gpt_net.h"

/// A model with its data and optimizer for the hand-written loop: the same networks, samples, batch sizes and
/// hyperparameters as the examples have by default.
struct FloorWork {
  std::int64_t samples = 0;
  std::int64_t batch_size = 0;
  /// The loss on the samples of an index, int64 [B].
  std::function<at::Tensor(const at::Tensor& index)> loss;
  std::function<FloorAdam()> make_optimizer;
};

/// What is to be trained, and where.
struct FloorTask {
  std::string model;  ///< simple, mlp, cnn or gpt
  std::string data;   ///< the folder of MNIST's unpacked files, or the text file
  std::int64_t batch_size = 64;
  at::Device device{at::kCPU};  ///< of the model; samples lie on the host, and a batch is brought there
  GptSizes gpt{.layers = 4, .heads = 4, .width = 128, .context = 128, .dropout = 0};
};

/// Throws std::runtime_error for another model and for data that cannot be read.
FloorWork make_floor_work(const FloorTask& task);
