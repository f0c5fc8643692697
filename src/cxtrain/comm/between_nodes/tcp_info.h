#pragma once

#include <optional>

#include "cxtrain/comm/connection_use.h"

namespace cxtrain {

/// Returns the use of a socket's connection to a node, as the kernel counts it. Absent if the kernel does not
/// (before Linux 4.10).
std::optional<ConnectionUse> use_of_connection(int socket, int node);

}  // namespace cxtrain
