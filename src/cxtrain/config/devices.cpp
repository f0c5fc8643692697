#include "cxtrain/config/devices.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "cxtrain/config/plan.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

using Result = Parsed<DeviceList>;

Result parse_indices(std::string_view typed, std::string_view list) {
  const std::string quoted = "'" + std::string(typed) + "'";
  std::vector<int> indices;
  list = trim(list);
  if (list == ",") return Result::refused(quoted + " names no device; the one with index 0 is '0,'");
  if (!list.empty() && list.back() == ',') list.remove_suffix(1);  // "1," is the list of the one device 1
  while (!list.empty()) {
    const std::string_view item = trim(list.substr(0, list.find(',')));
    const auto index = parse_integer(item);
    if (!index || *index > std::numeric_limits<int>::max()) {
      return Result::refused(quoted + ": '" + std::string(item) + "' is not the index of a device");
    }
    if (*index == -1 && indices.empty() && item.size() == list.size()) return Result::of({DeviceList::All{}});
    if (*index < 0)
      return Result::refused(quoted + ": the index " + std::string(item) +
                             " is negative (-1 alone means all)");
    const int value = static_cast<int>(*index);
    if (std::ranges::find(indices, value) != indices.end()) {
      return Result::refused(quoted + " names device " + std::to_string(value) + " twice");
    }
    indices.push_back(value);
    const std::size_t comma = list.find(',');
    if (comma == std::string_view::npos) break;
    list = trim(list.substr(comma + 1));
    if (list.empty()) return Result::refused(quoted + ": an index is missing after the last comma");
  }
  return Result::of({std::move(indices)});
}

/// The GPU that one entry names, or null.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, std::string_view entry) {
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
    const auto named = [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
    const auto whole = std::ranges::find(gpus, entry, &Gpu::uuid);
    if (whole != gpus.end()) return &*whole;
    const auto first = std::ranges::find_if(gpus, named);
    if (first == gpus.end()) return nullptr;
    const bool ambiguous = std::find_if(first + 1, gpus.end(), named) != gpus.end();
    return ambiguous ? nullptr : &*first;
  }
  // CUDA reads numbers as strtol does: "1gpu" is 1.
  const std::size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  const auto index = parse_integer(entry.substr(0, digits));
  const auto found = std::ranges::find_if(gpus, [&](const Gpu& gpu) {
    return index && gpu.index == *index && gpu.mig != Mig::instance;  // which have no number
  });
  return found == gpus.end() ? nullptr : &*found;
}

constexpr std::int64_t kContextMib = 512;
constexpr int kIdlePercent = 10;

/// What CUDA shows where nobody says what to show.
std::vector<Gpu> without_variable(const std::vector<Gpu>& gpus) {
  std::vector<Gpu> shown;
  for (const Gpu& gpu : gpus) {
    if (gpu.mig == Mig::none) shown.push_back(gpu);
  }
  const auto instance = std::ranges::find(gpus, Mig::instance, &Gpu::mig);
  if (shown.empty() && instance != gpus.end()) shown.push_back(*instance);
  return shown;
}

/// The GPUs of these UUIDs.
std::vector<Gpu> named(const std::vector<std::string>& uuids, const std::vector<Gpu>& gpus) {
  std::vector<Gpu> found;
  for (const std::string& uuid : uuids) {
    const auto gpu = std::ranges::find(gpus, uuid, &Gpu::uuid);
    if (gpu != gpus.end()) found.push_back(*gpu);
  }
  return found;
}

void append(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

}  // namespace

Parsed<DeviceList> parse_device_list(std::string_view text) {
  const std::string_view typed = trim(text);
  if (typed == "auto") return Result::of({DeviceList::Auto{}});
  if (!typed.empty() && (typed.front() == '[' || typed.back() == ']')) {
    if (typed.size() < 2 || typed.front() != '[' || typed.back() != ']') {
      return Result::refused("'" + std::string(text) + "' has an unpaired bracket");
    }
    return parse_indices(typed, typed.substr(1, typed.size() - 2));
  }
  if (typed.find(',') != std::string_view::npos) return parse_indices(typed, typed);
  const auto count = parse_integer(typed);
  if (!count || *count > std::numeric_limits<int>::max()) {
    return Result::refused("'" + std::string(text) +
                           "' is not a device list; write a count (2), a list (0,2), -1 for all, or auto");
  }
  if (*count == -1) return Result::of({DeviceList::All{}});
  if (*count < 0)
    return Result::refused("'" + std::string(text) + "' is a negative count (-1 alone means all)");
  if (*count > kMaxRanks) {
    return Result::refused("'" + std::string(text) + "' is more than any machine has; the most is " +
                           std::to_string(kMaxRanks));
  }
  if (*count == 0) return Result::of({std::vector<int>{}});
  return Result::of({static_cast<int>(*count)});
}

Parsed<std::vector<int>> pick_devices(const DeviceList& list, int available) {
  using Indices = Parsed<std::vector<int>>;
  const std::string there_are = available == 0   ? "none is visible"
                                : available == 1 ? "1 is visible (index 0)"
                                                 : std::to_string(available) + " are visible (indices 0 to " +
                                                       std::to_string(available - 1) + ")";
  if (const auto* indices = std::get_if<std::vector<int>>(&list.wanted)) {
    std::string missing;
    for (const int index : *indices) {
      if (index >= available) missing += (missing.empty() ? "" : ", ") + std::to_string(index);
    }
    if (missing.empty()) return Indices::of(*indices);
    return Indices::refused("GPU " + missing + " was asked for, but " + there_are);
  }
  const int* count = std::get_if<int>(&list.wanted);
  if (count != nullptr && *count > available) {
    return Indices::refused(std::to_string(*count) + (*count == 1 ? " GPU was" : " GPUs were") +
                            " asked for, but " + there_are);
  }
  std::vector<int> indices(static_cast<std::size_t>(count != nullptr ? *count : available));
  std::iota(indices.begin(), indices.end(), 0);
  return Indices::of(std::move(indices));
}

VisibleGpus visible_gpus(const std::vector<Gpu>& gpus,
                         const std::optional<std::string>& cuda_visible_devices) {
  if (!cuda_visible_devices) return {without_variable(gpus), ""};
  VisibleGpus visible;
  std::string_view rest = *cuda_visible_devices;
  while (!trim(rest).empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view entry = trim(rest.substr(0, comma));
    const Gpu* gpu = find_gpu(gpus, entry);
    if (gpu == nullptr) {
      visible.ignored = entry;
      break;
    }
    const auto same = [&](const Gpu& other) { return other.index == gpu->index; };
    if (std::ranges::any_of(visible.gpus, same)) return {{}, std::string(entry)};
    visible.gpus.push_back(*gpu);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return visible;
}

VisibleGpus visible_gpus(const Hardware& hardware, int n) {
  if (!hardware.gpu_support) return {};
  const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES");
  const Node& node = hardware.node(n);
  VisibleGpus visible = visible_gpus(
      node.gpus, variable == hardware.env.end() ? std::nullopt : std::optional(variable->second));
  if (!node.visible) return visible;
  // CUDA's word counts. An entry is to blame only where it is as this file reads the variable.
  const std::size_t as_read = visible.gpus.size();
  visible.gpus = named(*node.visible, node.gpus);
  if (visible.gpus.size() != as_read) visible.ignored.clear();
  return visible;
}

std::string occupied_by(const Gpu& gpu) {
  std::string why;
  if (const int processes = gpu.processes.value_or(0); processes > 0)
    append(why, std::to_string(processes) + (processes == 1 ? " process" : " processes"));
  if (const std::int64_t used = gpu.memory_used_mib.value_or(0); used > kContextMib)
    append(why, std::to_string(used) + " MiB of memory used");
  if (const int percent = gpu.utilization.value_or(0); percent > kIdlePercent)
    append(why, std::to_string(percent) + " % utilisation");
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
