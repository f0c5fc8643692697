#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// Which devices of a node `--devices` or `--gpus` asks for.
struct DeviceList {
  struct Auto {
    bool operator==(const Auto&) const = default;
  };
  struct All {
    bool operator==(const All&) const = default;
  };
  /// auto | all of them | the first n | these indices, in this order.
  std::variant<Auto, All, int, std::vector<int>> wanted;
};

/// The grammar:
///
///     auto          as many as suit           2         the first two
///     -1            all                       0,2  [0,2]  1,  [1]   these, by index into the visible set
///
/// "0", "[]" ask for none. Words, fractions, negative indices and duplicates are refused; whether the machine
/// has them is `pick_devices`' question.
Parsed<DeviceList> parse_device_list(std::string_view text);

/// The indices that the request means on a machine that shows `available` devices, or a sentence that says
/// what was asked for and what there is. Auto is all of them.
Parsed<std::vector<int>> pick_devices(const DeviceList& list, int available);

}  // namespace cxtrain
