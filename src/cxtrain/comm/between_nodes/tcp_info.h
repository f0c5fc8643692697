#pragma once

#include <optional>

#include "cxtrain/comm/connection_use.h"

namespace cxtrain {

/// Returns what the kernel says of the connection of a socket to a node. Absent without a kernel that counts
/// (Linux 4.10).
std::optional<ConnectionUse> use_of_connection(int socket, int node);

}  // namespace cxtrain
