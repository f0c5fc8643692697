#pragma once

#include <span>

#include "cxtrain/cluster/world.h"
#include "cxtrain/tensor/named_tensor.h"

namespace cxtrain {

/// Checks that every rank has the same parameters: names, shapes, dtypes, which of them are trained, in the
/// same order. Collective. Throws AgreedError, on every rank, naming the first parameter that differs,
/// the two ranks, and what each has. Costs one small message where all is well.
void verify_same_parameters(std::span<const NamedTensor> parameters, World& world);

}  // namespace cxtrain
