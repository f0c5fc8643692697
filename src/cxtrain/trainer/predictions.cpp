#include "cxtrain/trainer/predictions.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/jit/serialization/pickle.h>

namespace cxtrain {
namespace {

/// Whether the outputs are rows for samples: together as many as there are samples, and alike otherwise.
bool are_rows(const Predictions& predictions) {
  std::int64_t rows = 0;
  const auto& outputs = predictions.outputs;
  for (const at::Tensor& output : outputs) {
    if (output.dim() == 0 || output.scalar_type() != outputs[0].scalar_type()) return false;
    if (output.sizes().slice(1) != outputs[0].sizes().slice(1)) return false;
    rows += output.size(0);
  }
  return !outputs.empty() && rows == static_cast<std::int64_t>(predictions.indices.size());
}

}  // namespace

std::vector<char> to_pt(const Predictions& predictions) {
  c10::impl::GenericDict file(c10::StringType::get(), c10::AnyType::get());
  if (are_rows(predictions)) {
    file.insert("predictions", at::cat(predictions.outputs));
  } else {
    c10::List<at::Tensor> batches;
    for (const at::Tensor& output : predictions.outputs) batches.push_back(output.contiguous());
    file.insert("predictions", batches);
  }
  file.insert("indices", at::tensor(predictions.indices, at::kLong));
  return torch::jit::pickle_save(file);
}

std::string predictions_file(int rank, std::size_t dataloader_idx, std::size_t loaders) {
  const std::string loader = loaders > 1 ? "_dataloader_idx_" + std::to_string(dataloader_idx) : "";
  return "predictions_rank_" + std::to_string(rank) + loader + ".pt";
}

}  // namespace cxtrain
