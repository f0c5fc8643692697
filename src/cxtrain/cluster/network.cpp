#include "cxtrain/cluster/network.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "cxtrain/base/kernel_files.h"

namespace cxtrain {

std::optional<std::int64_t> link_speed(const std::string& interface) {
  const auto speed = kernel_number("/sys/class/net/" + interface + "/speed");
  return speed && *speed > 0 ? speed : std::nullopt;
}

std::vector<std::uint32_t> network_addresses() {
  std::multimap<std::int64_t, std::uint32_t, std::greater<>> by_speed;
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return {};
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    const bool usable = each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET &&
                        (each->ifa_flags & kUp) == kUp && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!usable) continue;
    sockaddr_in address{};
    std::memcpy(&address, each->ifa_addr, sizeof address);
    by_speed.emplace(link_speed(each->ifa_name).value_or(0), address.sin_addr.s_addr);
  }
  freeifaddrs(interfaces);
  std::vector<std::uint32_t> addresses;
  for (const auto& [speed, address] : by_speed) {
    if (addresses.size() < kMaxAddresses) addresses.push_back(address);
  }
  return addresses;
}

sockaddr_in socket_address(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address;
  result.sin_port = htons(port);
  return result;
}

std::uint64_t random_token() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace cxtrain
