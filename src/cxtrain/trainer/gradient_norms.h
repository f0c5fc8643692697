#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// `track_grad_norm`: the norm of order `p` (infinity: the largest absolute value) of each parameter's
/// gradient, from `norms` in the order of the parameters, and of all of them together, under Lightning's
/// names: grad_2.0_norm_NAME and grad_2.0_norm_total. Parameters without a gradient are left out. Reads from
/// the device.
std::vector<std::pair<std::string, double>> named_norms(const std::vector<NamedTensor>& parameters,
                                                        const std::vector<at::Tensor>& norms, double p);

}  // namespace cxtrain
