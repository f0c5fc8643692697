#include "cxtrain/trainer/model_checks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "cxtrain/base/error.h"
#include "cxtrain/config/values.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

/// As Python writes a float: Lightning's names hold one.
std::string python_float(double value) {
  const std::string text = std::isinf(value) ? "inf" : format_real(value);
  return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
}

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

void require_real_parameters(const Module& module) {
  for (const NamedTensor& parameter : module.all_parameters()) {
    if (!parameter.tensor.is_complex() || !parameter.tensor.requires_grad()) continue;
    throw ConfigError(
        "model",
        "its parameter " + parameter.name + " is complex (" +
            std::string(c10::toString(parameter.tensor.scalar_type())) +
            "), and only real numbers are trained",
        "register at::view_as_real of it, with a last dimension of 2, and take at::view_as_complex of "
        "that in the forward pass",
        MessageCode::bad_model);
  }
}

void FiniteCheck::ask(const at::Tensor& loss) {
  if (loss.defined()) loss_.emplace(std::vector<at::Tensor>{loss.detach()});
}

void FiniteCheck::ask(const std::vector<TrainedParameters*>& trained) {
  const at::NoGradGuard no_grad;
  names_.clear();
  std::vector<at::Tensor> values;
  for (const TrainedParameters* parameters : trained) {
    for (const Piece& piece : parameters->pieces()) {
      values.push_back(piece.values.detach());
      names_.push_back(piece.name);
    }
  }
  std::vector<at::Tensor> largest = norms(values, std::numeric_limits<double>::infinity());
  const at::Tensor all = total_norm(largest, std::numeric_limits<double>::infinity());
  const at::Tensor found = at::isfinite(all).logical_not().to(at::kFloat).reshape({1});
  for (TrainedParameters* parameters : trained) parameters->agree_on_overflow(found);
  largest.push_back(found);
  parameters_.emplace(largest);
}

void FiniteCheck::answer() {
  if (const auto asked = std::exchange(loss_, std::nullopt)) {
    const double loss = asked->wait().front();
    if (!std::isfinite(loss)) {
      throw TrainingError(
          "the loss is " + std::to_string(loss) +
              " (trainer.terminate_on_nan); --detect_anomaly true finds the operation that makes it",
          MessageCode::not_finite);
    }
  }
  const auto asked = std::exchange(parameters_, std::nullopt);
  if (!asked) return;
  const std::vector<double> largest = asked->wait();
  if (largest.back() == 0) return;
  std::string name = "a parameter that another rank updates";
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (std::isfinite(largest[i])) continue;
    name = "the parameter " + names_[i];
    break;
  }
  throw TrainingError(name +
                          " is no longer finite (trainer.terminate_on_nan); a smaller learning rate or "
                          "--gradient_clip_val may help",
                      MessageCode::not_finite);
}

std::vector<std::pair<std::string, at::Tensor>> named_norms(const std::vector<NamedTensor>& parameters,
                                                            const std::vector<at::Tensor>& norms, double p) {
  const std::string prefix = "grad_" + python_float(p) + "_norm_";
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i].defined()) named.emplace_back(prefix + parameters[i].name, norms[i]);
  }
  if (!named.empty()) named.emplace_back(prefix + "total", total_norm(norms, p));
  return named;
}

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
