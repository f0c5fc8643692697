#include "cxtrain/trainer/gradient_norms.h"

#include <cmath>

#include "cxtrain/config/values.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

/// As Python writes a float: Lightning's names hold one.
std::string python_float(double value) {
  const std::string text = std::isinf(value) ? "inf" : format_real(value);
  return text.find_first_of(".eni") == std::string::npos ? text + ".0" : text;
}

}  // namespace

std::vector<std::pair<std::string, double>> named_norms(const std::vector<NamedTensor>& parameters,
                                                        const std::vector<at::Tensor>& norms, double p) {
  const std::string prefix = "grad_" + python_float(p) + "_norm_";
  std::vector<std::pair<std::string, double>> named;
  for (std::size_t i = 0; i < norms.size(); ++i) {
    if (norms[i].defined()) named.emplace_back(prefix + parameters[i].name, norms[i].item<double>());
  }
  if (!named.empty()) named.emplace_back(prefix + "total", total_norm(norms, p).item<double>());
  return named;
}

}  // namespace cxtrain
