#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {

/// Logs how the devices of all ranks are doing, on logging steps: Lightning's DeviceStatsMonitor, and what
/// Lightning 1.5 logs for `log_gpu_memory`. All ranks call it and exchange their samples; nothing happens
/// between logging steps.
///
///     device_stats, GPUs   DeviceStatsMonitor.on_train_batch_end/gpu_id: 0/utilization.gpu (%)
///                          .../memory.used (MB), .../memory.free (MB), .../temperature.gpu (°C)
///     device_stats, CPU    DeviceStatsMonitor.on_train_batch_end/cpu_percent, .../cpu_vm_percent,
///                          .../cpu_swap_percent: the process's, with several ranks below rank: 0/
///     all                  gpu_id: 0/memory.used (MB)
///     min_max              min_gpu_mem, max_gpu_mem
///
/// The number is the physical index, as nvidia-smi's; memory is in MiB. Names of GPUs that would collide
/// begin with their node or rank: "node: 1/gpu_id: 0", "rank: 3/gpu_id: 0" (Slurm shows each task its GPU as
/// number 0). A GPU that several ranks share is logged once; what a GPU does not tell is left out.
class DeviceStats : public Callback {
 public:
  /// Which of the three; the last two at once log both.
  struct Wanted {
    bool device_stats = false;
    std::optional<GpuMemoryLog> gpu_memory = {};
  };
  struct Sources {
    std::unique_ptr<GpuMonitor> gpus;
    std::function<CpuSample()> cpu;
  };
  DeviceStats(Wanted wanted, Sources sources);
  /// The same with this machine's sources.
  explicit DeviceStats(Wanted wanted);

  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  std::string state_key() const override {
    return wanted_.device_stats ? "DeviceStatsMonitor" : "log_gpu_memory";
  }

 private:
  struct GpuReading;
  void log_gpus(Run& run);
  void log_cpus(Run& run);
  std::vector<GpuReading> gather_gpus(Run& run);

  Wanted wanted_;
  Sources sources_;
};

/// `device_stats`: Lightning's DeviceStatsMonitor.
class DeviceStatsMonitor final : public DeviceStats {
 public:
  DeviceStatsMonitor() : DeviceStats({.device_stats = true}) {}
};

/// `gpu_memory`: what Lightning 1.5 logs for `log_gpu_memory`.
class GpuMemoryMonitor final : public DeviceStats {
 public:
  struct Args {
    GpuMemoryLog log = GpuMemoryLog::all;

    void fields(auto&& field) {
      field("log", log, "all: the memory of each GPU; min_max: the least and the most");
    }
  };
  explicit GpuMemoryMonitor(const Args& args) : DeviceStats({.gpu_memory = args.log}) {}
};

}  // namespace cxtrain
