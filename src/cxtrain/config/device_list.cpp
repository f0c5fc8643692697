#include "cxtrain/config/device_list.h"

#include <algorithm>
#include <limits>
#include <numeric>

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
    if (std::find(indices.begin(), indices.end(), value) != indices.end()) {
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
                           "' is no device request; write a count (2), a list (0,2), -1 for all, or auto");
  }
  if (*count == -1) return Result::of({DeviceList::All{}});
  if (*count < 0)
    return Result::refused("'" + std::string(text) + "' is a negative count (-1 alone means all)");
  if (*count > kMostRanks) {
    return Result::refused("'" + std::string(text) + "' is more than any machine has; the most is " +
                           std::to_string(kMostRanks));
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

}  // namespace cxtrain
