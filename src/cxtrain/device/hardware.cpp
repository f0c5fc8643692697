#include "cxtrain/device/hardware.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "cxtrain/device/nvml.h"

namespace cxtrain {
namespace {

int cores_of_this_process() {
  // The mask that mpirun or Slurm bound the process to; a fixed-size set fails on machines beyond 1,024 CPUs.
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

const Node& Hardware::node(int n) const {
  if (nodes.empty() || n < 0) throw std::logic_error("a hardware description has at least one node");
  return nodes[std::min(static_cast<std::size_t>(n), nodes.size() - 1)];
}

Hardware probe_hardware() {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  char hostname[HOST_NAME_MAX + 1] = {};
  if (gethostname(hostname, sizeof hostname - 1) == 0) node.hostname = hostname;
  node.cores = cores_of_this_process();
  node.gpus = read_gpus_from_nvml();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

}  // namespace cxtrain
