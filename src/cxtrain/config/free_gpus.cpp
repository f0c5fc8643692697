#include "cxtrain/config/free_gpus.h"

#include <algorithm>
#include <utility>

namespace cxtrain {
namespace {

constexpr std::int64_t kContextMib = 512;
constexpr int kIdlePercent = 10;

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

}  // namespace

std::string occupied_by(const Gpu& gpu) {
  std::string why;
  if (gpu.processes > 0) {
    append(why, std::to_string(gpu.processes) + (gpu.processes == 1 ? " process" : " processes"));
  }
  if (gpu.memory_used_mib > kContextMib)
    append(why, std::to_string(gpu.memory_used_mib) + " MiB of memory used");
  if (gpu.utilization > kIdlePercent) append(why, std::to_string(gpu.utilization) + " % utilisation");
  if (gpu.compute_mode == "prohibited") append(why, "compute mode prohibited");
  return why;
}

Parsed<std::vector<int>> pick_free_gpus(const std::vector<Gpu>& visible, int wanted,
                                        const std::string& hostname) {
  std::vector<int> open;
  std::string occupied;
  for (std::size_t i = 0; i < visible.size(); ++i) {
    if (const std::string why = occupied_by(visible[i]); why.empty()) {
      open.push_back(static_cast<int>(i));
    } else {
      append(occupied, "GPU " + std::to_string(visible[i].index) + " (" + why + ")");
    }
  }
  const auto least = static_cast<std::size_t>(std::max(wanted, 1));
  if (open.size() < least) {
    const std::string asked = wanted == 0   ? "free GPUs were"
                              : wanted == 1 ? "1 free GPU was"
                                            : std::to_string(wanted) + " free GPUs were";
    const std::string there_are = open.empty()       ? "none is free"
                                  : open.size() == 1 ? "only 1 is free"
                                                     : "only " + std::to_string(open.size()) + " are free";
    return Parsed<std::vector<int>>::refused(asked + " asked for (auto_select_gpus), but of the " +
                                             std::to_string(visible.size()) + " visible on node " + hostname +
                                             " " + there_are +
                                             (occupied.empty() ? "" : "; occupied: " + occupied));
  }
  if (wanted > 0) open.resize(least);
  return Parsed<std::vector<int>>::of(std::move(open));
}

}  // namespace cxtrain
