#include "cxtrain/trainer/gradient_norms.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

#include <cmath>

#include "cxtrain/config/parse_scalar.h"

namespace cxtrain {
namespace {

/// As Python writes a float: Lightning's names hold one.
std::string python_float(double value) {
  const std::string text = std::isinf(value) ? "inf" : format_real(value);
  return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::vector<std::pair<std::string, double>> gradient_norms(const std::vector<NamedTensor>& parameters,
                                                           double p) {
  const at::NoGradGuard no_grad;
  const std::string prefix = "grad_" + python_float(p) + "_norm_";
  std::vector<std::pair<std::string, double>> norms;
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : parameters) {
    if (!parameter.tensor.grad().defined()) continue;
    norms.emplace_back(prefix + parameter.name, 0.0);
    gradients.push_back(parameter.tensor.grad());
  }
  if (gradients.empty()) return norms;
  std::vector<at::Tensor> each = at::_foreach_norm(gradients, p);
  for (at::Tensor& norm : each) norm = norm.to(at::kCPU, at::kDouble);
  for (std::size_t i = 0; i < each.size(); ++i) norms[i].second = each[i].item<double>();
  norms.emplace_back(prefix + "total", at::linalg_vector_norm(at::stack(each), p).item<double>());
  return norms;
}

}  // namespace cxtrain
