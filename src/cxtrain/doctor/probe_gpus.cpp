#include "cxtrain/device/nvml_health.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

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
