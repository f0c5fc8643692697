#pragma once

#include <c10/core/Device.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

/// What gpu_bench measures, one measurement in a file. None knows what is good: scripts/gpu_check does.
namespace cxtrain::gpu_bench {

/// What a measurement is given.
struct Setup {
  c10::Device device{c10::kCPU};
  /// Small tensors and few rounds: to see that a measurement works, where its figures mean nothing.
  bool tiny = false;
};

/// This machine cannot show what was to be measured; says why.
struct NotMeasurable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Figures by name: `{"pinned to device": {"value": 24.1, "unit": "GB/s"}}`.
class Figures {
 public:
  void add(const std::string& name, double value, const std::string& unit) {
    json_[name] = {{"value", value}, {"unit", unit}};
  }
  const nlohmann::json& json() const { return json_; }

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

/// Batch norm over the ranks, of one rank, against LibTorch's own, float32 and float16.
Figures measure_sync_batch_norm(const Setup& setup);
/// The bandwidth of a batch on its way to the device and back, from page-locked memory and from any.
Figures measure_host_copies(const Setup& setup);
/// How much of a copy to the device is hidden behind what the device computes on another stream.
Figures measure_copy_overlap(const Setup& setup);
/// 160 gradients into one bucket: a copy for each against one call for all.
Figures measure_bucket_copies(const Setup& setup);

}  // namespace cxtrain::gpu_bench
