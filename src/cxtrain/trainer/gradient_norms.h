#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cxtrain/reduce/named_tensor.h"

namespace cxtrain {

/// `track_grad_norm`: the norm of order `p` (infinity: the largest absolute value) of each parameter's
/// gradient, and of all of them together, under Lightning's names: grad_2.0_norm_NAME and
/// grad_2.0_norm_total. Parameters without a gradient are left out. Reads from the device.
std::vector<std::pair<std::string, double>> gradient_norms(const std::vector<NamedTensor>& parameters,
                                                           double p);

}  // namespace cxtrain
