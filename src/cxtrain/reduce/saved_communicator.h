#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Saves the communicator for the backward pass, which the communicator outlives.
inline void save(torch::autograd::AutogradContext& context, Communicator* communicator) {
  context.saved_data["communicator"] = reinterpret_cast<std::int64_t>(communicator);
}
inline Communicator& saved_communicator(torch::autograd::AutogradContext& context) {
  // What autograd saves is a number at most.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return *reinterpret_cast<Communicator*>(context.saved_data["communicator"].toInt());
}

}  // namespace cxtrain
