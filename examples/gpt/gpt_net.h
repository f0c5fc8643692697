#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

/// The blocks of a decoder over bytes with learned positions: an embedding, layers of attention, and an
/// output layer that shares the embedding's weights.

struct GptSizes {
  static constexpr std::int64_t kVocabulary = 256;
  std::int64_t layers = 4, heads = 4, width = 128, context = 128;
  double dropout = 0;
};

class GptEmbeddingImpl : public torch::nn::Module {
 public:
  explicit GptEmbeddingImpl(const GptSizes& sizes);
  /// int64 [B, T], T <= context, to float [B, T, width].
  at::Tensor forward(const at::Tensor& bytes);
  const at::Tensor& weight() const { return tokens_->weight; }

 private:
  torch::nn::Embedding tokens_{nullptr}, positions_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(GptEmbedding);

/// Attention and MLP, each added to what came in and fed by its layer norm (Radford et al. 2019).
class GptBlockImpl : public torch::nn::Module {
 public:
  explicit GptBlockImpl(const GptSizes& sizes);
  at::Tensor forward(at::Tensor x);  ///< float [B, T, width] to the same

 private:
  at::Tensor attention(const at::Tensor& x);

  GptSizes sizes_;
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
  torch::nn::Linear qkv_{nullptr}, out_{nullptr}, up_{nullptr}, down_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(GptBlock);

class GptHeadImpl : public torch::nn::Module {
 public:
  /// `weight`: of the embedding, float [256, width].
  GptHeadImpl(const GptSizes& sizes, const at::Tensor& weight);
  at::Tensor forward(const at::Tensor& x);  ///< float [B, T, width] to logits float [B, T, 256]

 private:
  torch::nn::LayerNorm norm_{nullptr};
  at::Tensor weight_;
};
TORCH_MODULE(GptHead);
