#include "cxtrain/config/visible_gpus.h"

#include <algorithm>
#include <string_view>

#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// The GPU that one entry names, or null.
const Gpu* find_gpu(const std::vector<Gpu>& gpus, std::string_view entry) {
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
    const auto named = [&](const Gpu& gpu) { return gpu.uuid.starts_with(entry); };
    const auto whole =
        std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.uuid == entry; });
    if (whole != gpus.end()) return &*whole;
    const auto first = std::find_if(gpus.begin(), gpus.end(), named);
    if (first == gpus.end()) return nullptr;
    const bool ambiguous = std::find_if(first + 1, gpus.end(), named) != gpus.end();
    return ambiguous ? nullptr : &*first;
  }
  // CUDA reads numbers as strtol does: "1gpu" is 1.
  const std::size_t digits = std::min(entry.find_first_not_of("0123456789"), entry.size());
  const auto index = parse_integer(entry.substr(0, digits));
  const auto found =
      std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return index && gpu.index == *index; });
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace

VisibleGpus visible_gpus(const std::vector<Gpu>& gpus,
                         const std::optional<std::string>& cuda_visible_devices) {
  if (!cuda_visible_devices) return {gpus, ""};
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
    if (std::any_of(visible.gpus.begin(), visible.gpus.end(), same)) return {{}, std::string(entry)};
    visible.gpus.push_back(*gpu);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  return visible;
}

VisibleGpus visible_gpus(const Hardware& hardware, int n) {
  if (!hardware.gpu_support) return {};
  const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES");
  return visible_gpus(hardware.node(n).gpus,
                      variable == hardware.env.end() ? std::nullopt : std::optional(variable->second));
}

}  // namespace cxtrain
