#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cxtrain/cluster/network.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

std::string address_text(const sockaddr* address) {
  if (address == nullptr || address->sa_family != AF_INET) return "";
  std::array<char, INET_ADDRSTRLEN> text{};
  const void* number = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  return inet_ntop(AF_INET, number, text.data(), text.size()) != nullptr ? text.data() : "";
}

/// A link that is down, and a virtual one, have no speed.
std::optional<std::vector<InterfaceFacts>> read_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<InterfaceFacts> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto found = std::ranges::find(interfaces, entry->ifa_name, &InterfaceFacts::name);
    if (found == interfaces.end()) {
      constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
      interfaces.push_back(
          {entry->ifa_name, (entry->ifa_flags & kUp) == kUp, link_speed(entry->ifa_name), ""});
      found = interfaces.end() - 1;
    }
    if (found->address.empty()) found->address = address_text(entry->ifa_addr);
  }
  return interfaces;
}

/// Whether an adapter has a port that is connected.
bool has_active_port(const std::filesystem::path& adapter) {
  std::error_code failed;
  for (const auto& port : std::filesystem::directory_iterator(adapter / "ports", failed)) {
    std::string number, state;  // "4: ACTIVE"
    std::ifstream(port.path() / "state") >> number >> state;
    if (state == "ACTIVE") return true;
  }
  return false;
}

std::vector<std::string> active_adapters() {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& adapter : std::filesystem::directory_iterator("/sys/class/infiniband", failed)) {
    if (has_active_port(adapter.path())) names.push_back(adapter.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void probe_network(NodeFacts& facts) {
  facts.interfaces = read_interfaces();
  facts.infiniband = active_adapters();
}

}  // namespace cxtrain::doctor
