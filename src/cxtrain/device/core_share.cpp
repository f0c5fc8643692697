#include "cxtrain/device/core_share.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <thread>

namespace cxtrain {
namespace {

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

/// The beginning of `text`, which is then cut off; -1 where it is no number.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return error == std::errc() ? number : -1;
}

/// Beyond what any machine has, a list of cores is none.
constexpr int kMostCores = 1 << 16;

}  // namespace

std::vector<int> cores_of_mask() {
  // A set of fixed size fails on machines beyond 1,024 cores; the kernel says by an error that it needs a
  // larger one.
  for (int room = CPU_SETSIZE; room <= kMostCores; room *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuSet> set(CPU_ALLOC(static_cast<std::size_t>(room)));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> cores;
    for (int core = 0; core < room; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) cores.push_back(core);
    }
    return cores;
  }
  std::vector<int> all(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::string machine_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string format_cores(std::span<const int> cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) text += "-" + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> parse_cores(std::string_view text) {
  std::vector<int> cores;
  while (!text.empty()) {
    const int first = take_number(text);
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      last = take_number(text);
    }
    for (int core = first; first >= 0 && core <= last && core < kMostCores; ++core) cores.push_back(core);
    const std::size_t comma = text.find(',');
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return cores;
}

std::vector<double> exact_core_shares(std::span<const std::vector<int>> masks) {
  std::map<int, int> ranks_of_core;
  for (const std::vector<int>& mask : masks) {
    for (const int core : mask) ++ranks_of_core[core];
  }
  std::vector<double> shares;
  for (const std::vector<int>& mask : masks) {
    double share = 0;
    for (const int core : mask) share += 1.0 / ranks_of_core[core];
    shares.push_back(share);
  }
  return shares;
}

std::vector<int> core_shares(std::span<const std::vector<int>> masks) {
  std::vector<int> shares;
  for (const double share : exact_core_shares(masks)) {
    constexpr double kRounding = 1e-6;  // three thirds are a core
    shares.push_back(std::max(1, static_cast<int>(share + kRounding)));
  }
  return shares;
}

std::string too_few_cores(int rank, int cores, int data_workers, bool on_gpu) {
  const int needed = 1 + data_workers + (on_gpu ? 1 : 0);
  if (cores >= needed) return {};
  std::string what = "the loop";
  if (data_workers > 0)
    what += ", " + std::to_string(data_workers) + (data_workers == 1 ? " data worker" : " data workers");
  if (on_gpu) what += ", what feeds the GPU";
  return "rank " + std::to_string(rank) + " has " + std::to_string(cores) +
         (cores == 1 ? " core" : " cores") + " and keeps " + std::to_string(needed) + " busy (" + what +
         "): steps will wait for a core. `mpirun -np 2` binds each rank to one core: give it --bind-to none, "
         "and srun "
         "--cpus-per-task " +
         std::to_string(needed) + (data_workers > 0 ? ", or ask for fewer --data.num_workers" : "");
}

}  // namespace cxtrain
