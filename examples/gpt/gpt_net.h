#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

struct GptSizes {
  std::int64_t layers = 4, heads = 4, width = 128, context = 128;
  double dropout = 0;
};

/// Attention and MLP, each added to what came in and fed by its layer norm (Radford et al. 2019).
class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const GptSizes& sizes);
  at::Tensor forward(at::Tensor x);  ///< float [B, T, width] to the same

 private:
  at::Tensor attention(const at::Tensor& x);

  GptSizes sizes_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear qkv_{nullptr}, out_{nullptr}, up_{nullptr}, down_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(Block);

/// A decoder over bytes with learned positions; the output layer shares the embedding's weights.
class GptNetImpl : public torch::nn::Module {
 public:
  static constexpr std::int64_t kVocabulary = 256;

  explicit GptNetImpl(const GptSizes& sizes);
  /// int64 [B, T], T <= context, to logits float [B, T, 256].
  at::Tensor forward(const at::Tensor& tokens);

 private:
  torch::nn::Embedding tokens_{nullptr}, positions_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
  torch::nn::ModuleList blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};
TORCH_MODULE(GptNet);
