#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include <string>

/// "mlp" or "cnn": float [B, 1, 28, 28] to logits float [B, 10].
inline torch::nn::Sequential make_mnist_net(const std::string& name) {
  namespace nn = torch::nn;
  if (name == "mlp") {
    return nn::Sequential(nn::Flatten(), nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(),
                          nn::Linear(512, 10));
  }
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 32, 3)), nn::ReLU(),   // 26 x 26
                        nn::Conv2d(nn::Conv2dOptions(32, 64, 3)), nn::ReLU(),  // 24 x 24
                        nn::MaxPool2d(2), nn::Flatten(),                       // 64 planes of 12 x 12
                        nn::Linear(9216, 128), nn::ReLU(), nn::Linear(128, 10));
}
