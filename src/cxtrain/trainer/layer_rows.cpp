#include "cxtrain/trainer/layer_rows.h"

#include <string>
#include <unordered_set>

namespace cxtrain {
namespace {

/// Tied parameters count where they come first.
using Counted = std::unordered_set<const at::TensorImpl*>;

void count(LayerRow& row, const at::Tensor& parameter, Counted& counted) {
  if (!counted.insert(parameter.unsafeGetTensorImpl()).second) return;
  row.params += parameter.numel();
  row.bytes += static_cast<std::int64_t>(parameter.nbytes());
  if (parameter.requires_grad()) row.trainable += parameter.numel();
}

/// "torch::nn::LinearImpl" is a Linear to its users.
std::string short_type(const torch::nn::Module& module) {
  std::string type = module.name();
  if (const std::size_t colons = type.rfind("::"); colons != std::string::npos)
    type = type.substr(colons + 2);
  if (type.ends_with("Impl")) type.resize(type.size() - 4);
  return type;
}

}  // namespace

std::vector<LayerRow> layer_rows(const Module& module) {
  std::vector<LayerRow> rows;
  Counted counted;
  LayerRow own{"(own)", "Parameter", 0, 0, 0};
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) count(own, parameter, counted);
  if (own.params > 0) rows.push_back(own);
  for (const auto& child : module.named_children()) {
    LayerRow row{child.key(), short_type(*child.value()), 0, 0, 0};
    for (const at::Tensor& parameter : child.value()->parameters()) count(row, parameter, counted);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace cxtrain
