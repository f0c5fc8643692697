#include "cxtrain/callbacks/device_stats.h"

#include <cmath>
#include <map>
#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {
namespace {

constexpr const char* kPrefix = "DeviceStatsMonitor.on_train_batch_end/";

void log_known(Run& run, const std::string& name, double value) {
  if (!std::isnan(value)) run.log(name, value);
}

/// Of this process, since the sample before.
std::function<CpuSample()> cpu_load() {
  struct Source {
    SteadyClock clock;
    CpuLoad load{clock};
  };
  return [source = std::make_shared<Source>()] { return source->load.sample(); };
}

}  // namespace

/// One GPU as a rank sees it.
struct DeviceStats::GpuReading {
  int gpu = 0;  ///< physical index
  std::string uuid;
  GpuSample sample = {};
  std::string name = {};  ///< "gpu_id: 0"; ranks do not exchange it

  void fields(auto&& field) {
    field("gpu", gpu);
    field("uuid", uuid);
    field("utilization_percent", sample.utilization_percent);
    field("memory_used_mib", sample.memory_used_mib);
    field("memory_free_mib", sample.memory_free_mib);
    field("temperature_celsius", sample.temperature_celsius);
  }
};

DeviceStats::DeviceStats(Wanted wanted, Sources sources) : wanted_(wanted), sources_(std::move(sources)) {}

DeviceStats::DeviceStats(Wanted wanted) : DeviceStats(wanted, {open_gpu_monitor(), cpu_load()}) {}

void DeviceStats::on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) {
  const std::int64_t step = run.global_step();
  const std::int64_t every = run.progress().log_every_n_steps;
  if (every <= 0 || !run.progress().stepped || step % every != 0) return;
  if (run.plan().accelerator == "gpu") {
    log_gpus(run);
  } else if (wanted_.device_stats) {
    log_cpus(run);
  }
}

/// The readings of all ranks, each GPU once. Collective.
std::vector<DeviceStats::GpuReading> DeviceStats::gather_gpus(Run& run) {
  const std::vector<RankPlan>& ranks = run.plan().ranks;
  const RankPlan& here = ranks.at(static_cast<std::size_t>(run.rank()));
  std::vector<GpuReading> own;
  for (std::size_t i = 0; i < here.gpus.size(); ++i)
    own.push_back({here.gpus[i], here.uuids[i], sources_.gpus->sample(here.gpus[i])});

  std::vector<GpuReading> readings;
  std::map<std::string, std::string> known;  // name to UUID
  const std::vector<std::vector<GpuReading>> of_ranks = gather_values(run.world(), own);
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (GpuReading reading : of_ranks[rank]) {
      const std::string id = "gpu_id: " + std::to_string(reading.gpu);
      reading.name = run.plan().num_nodes > 1 ? "node: " + std::to_string(ranks[rank].node) + "/" + id : id;
      if (const auto same = known.find(reading.name); same != known.end()) {
        if (same->second == reading.uuid) continue;
        reading.name = "rank: " + std::to_string(rank) + "/" + id;
      }
      known[reading.name] = reading.uuid;
      readings.push_back(std::move(reading));
    }
  }
  return readings;
}

void DeviceStats::log_gpus(Run& run) {
  double least = GpuSample::kUnknown, most = GpuSample::kUnknown;
  for (const GpuReading& reading : gather_gpus(run)) {
    const GpuSample& sample = reading.sample;
    if (wanted_.device_stats) {
      const std::string prefix = kPrefix + reading.name + "/";
      log_known(run, prefix + "utilization.gpu (%)", sample.utilization_percent);
      log_known(run, prefix + "memory.used (MB)", sample.memory_used_mib);
      log_known(run, prefix + "memory.free (MB)", sample.memory_free_mib);
      log_known(run, prefix + "temperature.gpu (°C)", sample.temperature_celsius);
    }
    if (wanted_.gpu_memory == GpuMemoryLog::all) {
      log_known(run, reading.name + "/memory.used (MB)", sample.memory_used_mib);
    }
    least = std::fmin(least, sample.memory_used_mib);  // fmin and fmax pass over what is unknown
    most = std::fmax(most, sample.memory_used_mib);
  }
  if (wanted_.gpu_memory != GpuMemoryLog::min_max) return;
  log_known(run, "min_gpu_mem", least);
  log_known(run, "max_gpu_mem", most);
}

void DeviceStats::log_cpus(Run& run) {
  const std::vector<CpuSample> ranks = gather_values(run.world(), sources_.cpu());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string prefix =
        kPrefix + (ranks.size() > 1 ? "rank: " + std::to_string(rank) + "/" : std::string());
    run.log(prefix + "cpu_percent", ranks[rank].cpu_percent);
    run.log(prefix + "cpu_vm_percent", ranks[rank].memory_percent);
    run.log(prefix + "cpu_swap_percent", ranks[rank].swap_percent);
  }
}

}  // namespace cxtrain
