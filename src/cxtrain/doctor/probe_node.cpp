#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "cxtrain/base/kernel_files.h"
#include "cxtrain/cluster/network.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ..." -> "580.65.06".
std::string driver_version_in(const std::string& text) {
  std::istringstream words(text.substr(0, text.find('\n')));
  for (std::string word; words >> word;) {
    const bool number = word.find_first_not_of("0123456789.") == std::string::npos;
    if (number && word.find('.') != std::string::npos) return word;
  }
  return "";
}

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
  std::ranges::sort(names);
  return names;
}

const GpuHealth* health_of_gpu(const std::vector<GpuHealth>& all, const GpuFacts& gpu) {
  for (const GpuHealth& health : all) {
    if (!gpu.uuid.empty() && health.uuid == gpu.uuid) return &health;
  }
  return nullptr;
}

/// The row of `NodeFacts::peer_access` of a GPU, which reaches its own memory.
std::vector<std::optional<bool>> peer_row(const GpuHealth* from, const GpuFacts& gpu,
                                          const std::vector<GpuFacts>& all) {
  std::vector<std::optional<bool>> row;
  for (const GpuFacts& to : all) {
    std::optional<bool>& reaches = row.emplace_back();
    if (&to == &gpu) reaches = true;
    if (from == nullptr) continue;
    const auto found = from->reaches.find(to.uuid);
    if (found != from->reaches.end()) reaches = found->second;
  }
  return row;
}

}  // namespace

Room room_of(const std::string& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) return {};
  const auto bytes = [&](fsblkcnt_t blocks) {
    return static_cast<std::int64_t>(std::min<std::uint64_t>(INT64_MAX, blocks * status.f_frsize));
  };
  return {bytes(status.f_blocks), bytes(status.f_bavail)};
}

void probe_machine(NodeFacts& facts) {
  facts.boot_id = machine_id();
  utsname system{};
  if (uname(&system) == 0) facts.kernel = system.release;
  if (const int cores = online_cores(); cores > 0) facts.cores = cores;
  constexpr const char* kTable = "/proc/meminfo";
  facts.memory_total = read_kernel_bytes(kTable, "MemTotal:");
  facts.memory_available = read_kernel_bytes(kTable, "MemAvailable:");
  facts.memory_limit = least_limit(limited_memory_groups());
  facts.swap_total = read_kernel_bytes(kTable, "SwapTotal:");
  if (const auto free = read_kernel_bytes(kTable, "SwapFree:"); free && facts.swap_total)
    facts.swap_used = *facts.swap_total - *free;
  double load = 0;
  if (getloadavg(&load, 1) == 1) facts.load = load;
  const Room shm = room_of("/dev/shm");
  facts.shm_size = shm.size;
  facts.shm_free = shm.free;
  const char* tmp = std::getenv("TMPDIR");
  facts.tmp_free = room_of(tmp != nullptr && *tmp != '\0' ? tmp : "/tmp").free;
  facts.driver_version = driver_version_in(kernel_text("/proc/driver/nvidia/version"));
}

void probe_network(NodeFacts& facts) {
  facts.interfaces = read_interfaces();
  facts.infiniband = active_adapters();
}

void probe_gpus(NodeFacts& facts, const char* nvml) {
  if (!facts.gpus || facts.gpus->empty()) return;
  if (facts.driver_version.empty()) facts.driver_version = driver_version_from_nvml(nvml);
  const std::vector<GpuHealth> all = read_gpu_health(nvml);
  std::vector<std::vector<std::optional<bool>>> peers;
  bool knows_peers = false;
  for (GpuFacts& gpu : *facts.gpus) {
    const GpuHealth* health = health_of_gpu(all, gpu);
    peers.push_back(peer_row(health, gpu, *facts.gpus));
    if (health == nullptr) continue;
    gpu.compute_mode = health->compute_mode.value_or("");
    gpu.ecc_uncorrected = health->ecc_uncorrected;
    gpu.throttled_by = health->throttled_by;
    knows_peers = knows_peers || !health->reaches.empty();
  }
  if (knows_peers) facts.peer_access = std::move(peers);
}

}  // namespace cxtrain::doctor
