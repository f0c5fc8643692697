#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxtrain/config/values.h"
#include "cxtrain/device/hardware.h"

/// Which devices a user asks for, which ones a process sees, and which of them nobody uses. Pure.
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

/// The GPUs of a node that a process sees, in the order in which it numbers them: "cuda:0" is the first.
struct VisibleGpus {
  std::vector<Gpu> gpus;
  std::string ignored;  ///< the first entry that names no GPU and so ended the list; empty when there is none
};

/// CUDA's reading of CUDA_VISIBLE_DEVICES: physical indices, or UUIDs, or unambiguous beginnings of UUIDs,
/// separated by commas. The first entry that names no GPU (-1, too large, unknown, ambiguous) hides itself
/// and all that follow; an entry repeated hides everything. Absent: all GPUs, and where MIG divides all of
/// them the first instance, as CUDA then shows no more; set but empty: none.
VisibleGpus visible_gpus(const std::vector<Gpu>& gpus,
                         const std::optional<std::string>& cuda_visible_devices);

/// The same for node `n`: what CUDA's driver said where it was asked, else by the variable from the
/// hardware's `env`. None in a build without GPU support.
VisibleGpus visible_gpus(const Hardware& hardware, int n);

/// What somebody else does with a GPU, or why it cannot be used: "2 processes, 40210 MiB of memory used".
/// Empty: it is free. A GPU is occupied by a compute process, by more than 512 MiB of memory in use (a CUDA
/// context in a container whose processes are hidden takes as much; a desktop does not), by more than 10 %
/// utilisation, or by the compute mode `prohibited`. What is not known of it counts as nothing.
std::string occupied_by(const Gpu& gpu);

/// The indices into `visible` of the first `wanted` GPUs that are free (0: of all that are, one at least), or
/// a sentence that names the occupied ones of this node.
Parsed<std::vector<int>> pick_free_gpus(const std::vector<Gpu>& visible, int wanted,
                                        const std::string& hostname);

}  // namespace cxtrain
