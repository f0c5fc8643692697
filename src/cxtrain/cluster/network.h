#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Addresses and secrets for connections between ranks that MPI does not make.
namespace cxtrain {

inline constexpr std::size_t kMaxAddresses = 4;

/// The speed of an interface in Mbit/s, where the kernel has it.
std::optional<std::int64_t> link_speed(const std::string& interface);

/// The IPv4 addresses of this machine's interfaces that are up and connected, except loopback, in network
/// byte order: the fastest first, at most `kMaxAddresses`.
std::vector<std::uint32_t> network_addresses();

/// The address of a socket. `address`: IPv4, in network byte order.
sockaddr_in socket_address(std::uint32_t address, std::uint16_t port);

/// A number that nobody outside of the job can guess: whoever reaches a node over the network would guess
/// fewer than 64 bits.
std::uint64_t random_token();

}  // namespace cxtrain
