// Measures what docs/gpu.md has expectations of, inside of one process. Prints one JSON object a line:
//
//   gpu_bench [--device cpu|cuda] [--tiny 1] NAME ...    the measurements of these names; all where none is
//   given gpu_bench devices                                    the GPUs that CUDA shows gpu_bench waits
//   FIT_OPTION ...                       trains with cxtrain_mpi's options and counts waits
//
//   {"measurement": "host_copies", "figures": {"page-locked to device": {"value": 24.1, "unit": "GB/s"}}}
//   {"measurement": "nccl_calls", "not_measurable": "no GPU is visible"}
//
// Exit status: 0, also where something cannot be measured here; 1 for an error; 2 for a wrong command line.

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cxtrain/plugin/accelerator_library.h"
#include "gpu_bench/cuda_measurement.h"

namespace {

using namespace cxtrain::gpu_bench;
using Json = nlohmann::json;

const std::map<std::string, std::function<Figures(const Setup&)>> kMeasurements{
    {"sync_batch_norm", measure_sync_batch_norm}, {"host_copies", measure_host_copies},
    {"copy_overlap", measure_copy_overlap},       {"bucket_copies", measure_bucket_copies},
    {"nccl_calls", measure_nccl_calls},
};

/// Runs one, prints its line, and says whether there was no error.
bool print(const std::string& name, const std::string& key, const std::function<Json()>& measure) {
  Json line{{"measurement", name}};
  bool good = true;
  try {
    line[key] = measure();
  } catch (const NotMeasurable& reason) {
    line["not_measurable"] = reason.what();
  } catch (const std::exception& error) {
    line["error"] = error.what();
    good = false;
  }
  std::puts(line.dump().c_str());
  std::fflush(stdout);
  return good;
}

/// The device of this name, awake.
c10::Device open_device(const std::string& name) {
  const c10::Device device(name);
  if (device.is_cpu()) return device;
  cuda_devices();  // throws where there is none
  cxtrain::open_accelerator();
  return {device.type(), device.has_index() ? device.index() : c10::DeviceIndex{0}};
}

bool run_one(const std::string& name, const std::string& device, bool tiny) {
  return print(name, "figures",
               [&] { return kMeasurements.at(name)({.device = open_device(device), .tiny = tiny}).json(); });
}

int usage() {
  std::fputs("gpu_bench [--device cpu|cuda] [--tiny 1] [NAME ...] | devices | waits FIT_OPTION ...\nNAMEs:",
             stderr);
  for (const auto& [name, unused] : kMeasurements) std::fprintf(stderr, " %s", name.c_str());
  std::fputs("\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names == std::vector<std::string>{"devices"}) return print("devices", "devices", cuda_devices) ? 0 : 1;
  if (!names.empty() && names[0] == "waits") {
    const std::vector<std::string> arguments(names.begin() + 1, names.end());
    return print("waits", "figures", [&] { return count_waits(arguments).json(); }) ? 0 : 1;
  }
  std::string device = "cuda";
  bool tiny = false;
  while (names.size() >= 2 && names[0].starts_with("--")) {
    if (names[0] == "--device") {
      device = names[1];
    } else if (names[0] == "--tiny") {
      tiny = names[1] == "1";
    } else {
      return usage();
    }
    names.erase(names.begin(), names.begin() + 2);
  }
  if (names.empty()) {
    for (const auto& [name, unused] : kMeasurements) names.push_back(name);
  }
  bool good = true;
  for (const std::string& name : names) {
    if (!kMeasurements.contains(name)) return usage();
  }
  for (const std::string& name : names) good = run_one(name, device, tiny) && good;
  return good ? 0 : 1;
}
