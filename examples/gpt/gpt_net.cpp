#include "gpt/gpt_net.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/nn/init.h>

#include <cmath>
#include <string>

namespace nn = torch::nn;

namespace {

/// Sets the first values of a block's parameters, as GPT-2 does: weights of deviation 0.02; those that add to
/// the residual are smaller by the root of their number.
void start(const nn::Module& block, const GptSizes& sizes) {
  for (const auto& parameter : block.named_parameters()) {
    const std::string& name = parameter.key();
    if (parameter.value().dim() == 2) {
      const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(sizes.layers));
      const bool adds = name.ends_with("out.weight") || name.ends_with("down.weight");
      nn::init::normal_(parameter.value(), 0, adds ? residual : 0.02);
    } else if (name.ends_with("bias")) {
      nn::init::zeros_(parameter.value());
    }
  }
}

}  // namespace

GptBlockImpl::GptBlockImpl(const GptSizes& sizes) : sizes_(sizes) {
  const std::int64_t width = sizes.width;
  norm1_ = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
  qkv_ = register_module("qkv", nn::Linear(width, 3 * width));
  out_ = register_module("out", nn::Linear(width, width));
  norm2_ = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
  up_ = register_module("up", nn::Linear(width, 4 * width));
  down_ = register_module("down", nn::Linear(4 * width, width));
  dropout_ = register_module("dropout", nn::Dropout(sizes.dropout));
  start(*this, sizes);
}

at::Tensor GptBlockImpl::attention(const at::Tensor& x) {
  const std::int64_t batch = x.size(0), time = x.size(1);
  // [B, T, 3, heads, width / heads] -> 3 x [B, heads, T, width / heads]
  const auto qkv = qkv_(x).view({batch, time, 3, sizes_.heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
  const double dropout = is_training() ? sizes_.dropout : 0;
  const at::Tensor y =
      at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{}, dropout, /*is_causal=*/true);
  return out_(y.transpose(1, 2).reshape({batch, time, sizes_.width}));
}

at::Tensor GptBlockImpl::forward(at::Tensor x) {
  x = x + dropout_(attention(norm1_(x)));
  return x + dropout_(down_(at::gelu(up_(norm2_(x)))));
}

GptEmbeddingImpl::GptEmbeddingImpl(const GptSizes& sizes) {
  tokens_ = register_module("tokens", nn::Embedding(GptSizes::kVocabulary, sizes.width));
  positions_ = register_module("positions", nn::Embedding(sizes.context, sizes.width));
  dropout_ = register_module("dropout", nn::Dropout(sizes.dropout));
  start(*this, sizes);
}

at::Tensor GptEmbeddingImpl::forward(const at::Tensor& bytes) {
  const at::Tensor places = at::arange(bytes.size(1), bytes.options());
  return dropout_(tokens_(bytes) + positions_(places));
}

GptHeadImpl::GptHeadImpl(const GptSizes& sizes, const at::Tensor& weight) {
  norm_ = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({sizes.width})));
  weight_ = register_parameter("weight", weight);
}

at::Tensor GptHeadImpl::forward(const at::Tensor& x) { return at::linear(norm_(x), weight_); }
