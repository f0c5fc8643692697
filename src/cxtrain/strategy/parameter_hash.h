#pragma once

#include <string>

#include "cxtrain/strategy/trainable.h"

namespace cxtrain {

/// SHA-256 over the bytes of every parameter and buffer, contiguous, in the order of their names. Copies what
/// is on a GPU to the host.
std::string parameters_sha256(const Trainable& module);

}  // namespace cxtrain
