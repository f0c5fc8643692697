#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// What ranks need to reach each other over the network without MPI.
namespace cxtrain {

inline constexpr std::size_t kMostAddresses = 4;

/// The speed of an interface in Mbit/s, where the kernel has it.
std::optional<std::int64_t> link_speed(const std::string& interface);

/// The IPv4 addresses of this machine's interfaces that are up and connected, except loopback, in network
/// byte order: the fastest first, at most `kMostAddresses`.
std::vector<std::uint32_t> network_addresses();

/// A number that nobody outside of the job can guess: whoever reaches a node over the network would guess
/// fewer than 64 bits.
std::uint64_t random_token();

}  // namespace cxtrain
