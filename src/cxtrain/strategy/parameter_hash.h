#pragma once

#include <string>

#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

/// SHA-256 over the bytes of every parameter and buffer of the strategy's model, contiguous, in the order of
/// their names. Copies what is on a GPU to the host. Collective.
std::string parameters_sha256(Strategy& strategy);

}  // namespace cxtrain
