#include "cxtrain/tensor/shapes_only.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformerlayer.h>

#include "cxtrain/device/resources.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("models have their shapes, and no memory", "[shapes_only]") {
  const std::int64_t before = data_bytes();
  const ShapesOnly shapes;
  // 400 GB.
  const torch::nn::Linear large(1'000'000, 100'000);
  CHECK(large->weight.sizes() == at::IntArrayRef({100'000, 1'000'000}));
  CHECK(large->weight.requires_grad());
  const torch::nn::Sequential all(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 3)), torch::nn::BatchNorm1d(10),
      torch::nn::LSTM(64, 32), torch::nn::Embedding(10, 4),
      torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(64, 4)));
  for (const at::Tensor& tensor : all->parameters()) CHECK(tensor.is_meta());
  for (const at::Tensor& tensor : all->buffers()) CHECK(tensor.is_meta());
  const at::Tensor mask = at::full({3, 3}, 2.0).tril() + at::arange(3).to(at::kFloat).cos().to(at::kCPU);
  CHECK(mask.is_meta());
  CHECK(mask.sizes() == at::IntArrayRef({3, 3}));
  CHECK_THROWS_AS(mask[0][0].item<float>(), c10::Error);
  CHECK(data_bytes() - before < (std::int64_t{64} << 20));
}

TEST_CASE("afterwards tensors have memory again", "[shapes_only]") {
  CHECK_FALSE(ShapesOnly::active());
  {
    const ShapesOnly shapes;
    CHECK(ShapesOnly::active());
  }
  CHECK(at::randn({2}).device().is_cpu());
}

}  // namespace
}  // namespace cxtrain
