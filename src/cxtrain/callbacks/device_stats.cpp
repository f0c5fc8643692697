#include "cxtrain/callbacks/device_stats.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace cxtrain {
namespace {

constexpr const char* kPrefix = "DeviceStatsMonitor.on_train_batch_end/";

/// The same for the same GPU; exact as a double.
double identity(const std::string& uuid) {
  constexpr int kMantissa = std::numeric_limits<double>::digits;
  return static_cast<double>(std::hash<std::string>{}(uuid) >> (64 - kMantissa));
}

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

/// One GPU as a rank sees it. Ranks exchange these as plain numbers.
struct DeviceStats::GpuReading {
  double gpu = 0, uuid = 0;  ///< physical index; identity
  GpuSample sample;
  std::string name;  ///< "gpu_id: 0"

  static constexpr std::size_t kNumbers = 6;
  std::array<double, kNumbers> numbers() const {
    return {gpu,
            uuid,
            sample.utilization_percent,
            sample.memory_used_mib,
            sample.memory_free_mib,
            sample.temperature_celsius};
  }
  static GpuReading of(const double* numbers) {
    return {numbers[0], numbers[1], {numbers[2], numbers[3], numbers[4], numbers[5]}, ""};
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
  constexpr std::size_t kNumbers = GpuReading::kNumbers;
  std::vector<double> numbers;
  for (const RankPlan& rank : run.plan().ranks) {
    for (std::size_t i = 0; i < rank.gpus.size(); ++i) {
      std::array<double, kNumbers> own{};
      if (rank.rank == run.rank()) {
        const int gpu = rank.gpus[i];
        own = GpuReading{static_cast<double>(gpu), identity(rank.uuids[i]), sources_.gpus->sample(gpu), ""}
                  .numbers();
      }
      numbers.insert(numbers.end(), own.begin(), own.end());
    }
  }
  run.world().sum(numbers);  // the others' are zeros

  std::vector<GpuReading> readings;
  std::map<std::string, double> known;
  const double* next = numbers.data();
  for (const RankPlan& rank : run.plan().ranks) {
    for (std::size_t i = 0; i < rank.gpus.size(); ++i, next += kNumbers) {
      GpuReading reading = GpuReading::of(next);
      const std::string id = "gpu_id: " + std::to_string(static_cast<int>(reading.gpu));
      reading.name = run.plan().num_nodes > 1 ? "node: " + std::to_string(rank.node) + "/" + id : id;
      if (const auto same = known.find(reading.name); same != known.end()) {
        if (same->second == reading.uuid) continue;
        reading.name = "rank: " + std::to_string(rank.rank) + "/" + id;
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
  constexpr std::size_t kNumbers = 3;
  std::vector<double> numbers(kNumbers * static_cast<std::size_t>(run.world().size()));
  const CpuSample own = sources_.cpu();
  double* mine = numbers.data() + kNumbers * static_cast<std::size_t>(run.rank());
  mine[0] = own.cpu_percent;
  mine[1] = own.memory_percent;
  mine[2] = own.swap_percent;
  run.world().sum(numbers);
  for (int rank = 0; rank < run.world().size(); ++rank) {
    const double* sample = numbers.data() + kNumbers * static_cast<std::size_t>(rank);
    const std::string prefix =
        kPrefix + (run.world().size() > 1 ? "rank: " + std::to_string(rank) + "/" : std::string());
    run.log(prefix + "cpu_percent", sample[0]);
    run.log(prefix + "cpu_vm_percent", sample[1]);
    run.log(prefix + "cpu_swap_percent", sample[2]);
  }
}

}  // namespace cxtrain
