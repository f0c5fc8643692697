#pragma once

#include <array>
#include <string_view>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// How gradients of CPU ranks travel between nodes. `automatic`: by TCP beside backward, unless MPI is much
/// faster.
enum class NetworkWay { automatic, mpi, tcp };

template <>
struct ChoiceOf<NetworkWay> {
  static constexpr std::array<std::string_view, 3> words{"auto", "mpi", "tcp"};
};

}  // namespace cxtrain
