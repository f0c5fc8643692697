#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <set>

#include "cxtrain/doctor/check_support.h"

/// Whether the GPUs and their drivers are fit to be used.
namespace cxtrain::doctor {
namespace {

/// Memory that a GPU without any process may show as used: the driver's own.
constexpr std::int64_t kDriversMib = 1024;
/// Percent; a GPU that does nothing shows less.
constexpr int kBusyPercent = 20;

/// GPUs that the ranks of a node are to use; where the plan names none, all of the node.
std::vector<const GpuFacts*> used_gpus(const Recording& world, const NodeFacts& node) {
  std::set<std::string> planned;
  for (const RankFacts* rank : ranks_of(world, node.node))
    planned.insert(rank->planned_gpus.begin(), rank->planned_gpus.end());
  std::vector<const GpuFacts*> gpus;
  if (!node.gpus) return gpus;
  for (const GpuFacts& gpu : *node.gpus) {
    if (planned.empty() || planned.contains(gpu.uuid)) gpus.push_back(&gpu);
  }
  return gpus;
}

/// Asks `judge` about every GPU that is used: words for a wrong one, empty for a good one, absent where it is
/// not known.
using JudgeGpu = std::function<std::optional<std::string>(const GpuFacts&, const NodeFacts&)>;
FindingsCollector judge_gpus(const Recording& world, const JudgeGpu& judge) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    for (const GpuFacts* gpu : used_gpus(world, node)) {
      const auto words = judge(*gpu, node);
      if (!words) continue;
      collector.judge(words->empty() ? "" : "GPU " + std::to_string(gpu->index) + " " + *words, node);
    }
  }
  return collector;
}

Findings find_memory_errors(const Recording& world) {
  const auto judge = [](const GpuFacts& gpu, const NodeFacts&) -> std::optional<std::string> {
    if (!gpu.ecc_uncorrected) return std::nullopt;
    if (*gpu.ecc_uncorrected <= 0) return "";
    return "has " + std::to_string(*gpu.ecc_uncorrected) + " uncorrected memory errors";
  };
  return judge_gpus(world, judge)
      .result(Severity::error, "leave the node out (--exclude), and have the GPU reset or replaced",
              "the GPUs' counts of memory errors");
}

int major_of(const std::string& version) {
  int number = 0;
  std::from_chars(version.data(), version.data() + version.size(), number);
  return number;
}

/// Drivers run every runtime of their own major version and of older ones.
Findings find_old_drivers(const Recording& world) {
  const int runtime = major_of(world.job.cuda_runtime);
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (runtime == 0 || node.cuda_version.empty()) continue;
    collector.judge(major_of(node.cuda_version) < runtime,
                    "the driver " + node.driver_version + " runs CUDA " + node.cuda_version +
                        " at most, and this build needs " + world.job.cuda_runtime,
                    node);
  }
  return collector.result(Severity::error,
                          "install a newer driver, or build with a LibTorch for an older CUDA",
                          "the drivers' and the build's CUDA versions");
}

Findings find_failing_cuda(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) collector.judge(node.cuda_failure, node);
  return collector.result(Severity::error, "look at nvidia-smi on that node, or leave it out (--exclude)",
                          "whether CUDA starts");
}

Findings find_unlike_drivers(const Recording& world) {
  const auto hosts = group_by<std::string>(world.nodes, &NodeFacts::driver_version, &NodeFacts::host);
  return unlike(Severity::warning, "drivers ", hosts, "have one driver installed on all nodes",
                "the drivers' versions");
}

Findings find_compute_modes(const Recording& world) {
  const auto judge = [](const GpuFacts& gpu, const NodeFacts&) -> std::optional<std::string> {
    if (gpu.compute_mode.empty()) return std::nullopt;
    if (gpu.compute_mode == "prohibited") return "is in compute mode prohibited";
    if (!gpu.compute_mode.starts_with("exclusive")) return "";
    if (!gpu.processes) return std::nullopt;
    if (*gpu.processes > 0) return "is in compute mode " + gpu.compute_mode + " and has a process already";
    return "";
  };
  const FindingsCollector collector = judge_gpus(world, judge);
  return collector.result(Severity::error, "nvidia-smi -c DEFAULT, or use another GPU",
                          "the GPUs' compute modes");
}

/// The ranks have not started CUDA when the facts are gathered: what is there belongs to others.
Findings find_busy_gpus(const Recording& world) {
  const auto judge = [](const GpuFacts& gpu, const NodeFacts&) -> std::optional<std::string> {
    if (!gpu.memory_used_mib && !gpu.processes) return std::nullopt;
    const std::int64_t used = gpu.memory_used_mib.value_or(0);
    const int processes = gpu.processes.value_or(0), utilization = gpu.utilization.value_or(0);
    if (processes == 0 && used <= kDriversMib && utilization < kBusyPercent) return "";
    const auto known = [](const auto& value) {
      return value ? std::to_string(*value) : "an unknown number of";
    };
    return "has " + known(gpu.processes) + " other processes, " + known(gpu.memory_used_mib) +
           " MiB in use, and is " + (gpu.utilization ? std::to_string(*gpu.utilization) : "?") + " % busy";
  };
  return judge_gpus(world, judge)
      .result(Severity::warning, "nvidia-smi names their owners; choose other GPUs: --devices 2,3",
              "what else runs on the GPUs");
}

Findings find_throttled_gpus(const Recording& world) {
  constexpr std::array kHarmless{"none",         "gpu_idle",   "applications_clocks_setting",
                                 "sw_power_cap", "sync_boost", "display_clock_setting"};
  const auto judge = [&](const GpuFacts& gpu, const NodeFacts&) -> std::optional<std::string> {
    if (!gpu.throttled_by) return std::nullopt;
    for (const std::string& reason : *gpu.throttled_by) {
      if (std::ranges::find(kHarmless, reason) == kHarmless.end()) return "runs at lower clocks: " + reason;
    }
    return "";
  };
  return judge_gpus(world, judge)
      .result(Severity::warning, "have cooling and power of the node looked at; leave it out meanwhile",
              "whether the GPUs run at their full clocks");
}

}  // namespace

std::vector<Check> gpu_health_checks() {
  return {
      {"gpu.ecc", "A GPU has memory errors", "Its results may be wrong, and it may fail at any time.",
       find_memory_errors, uses_gpus},
      {"gpu.driver_old", "A driver is older than the build's CUDA",
       "CUDA refuses to start, and the job ends at its start.", find_old_drivers, uses_gpus},
      {"gpu.cuda", "CUDA cannot start", "No rank of that node can use a GPU.", find_failing_cuda, uses_gpus},
      {"gpu.drivers_differ", "Nodes have unequal drivers",
       "Features and speed then depend on the nodes that a job gets.", find_unlike_drivers, uses_gpus},
      {"gpu.compute_mode", "A GPU's compute mode shuts the run out",
       "CUDA refuses a process on a GPU that is prohibited or exclusively another's.", find_compute_modes,
       uses_gpus},
      {"gpu.busy", "Other processes use a GPU", "Their work slows every step, and their memory is missing.",
       find_busy_gpus, uses_gpus},
      {"gpu.throttled", "A GPU is throttled", "All ranks wait for the rank with lowered clocks.",
       find_throttled_gpus, uses_gpus},
  };
}

}  // namespace cxtrain::doctor
