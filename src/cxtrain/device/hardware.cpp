#include "cxtrain/device/hardware.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "cxtrain/base/process.h"
#include "cxtrain/device/cores.h"
#include "cxtrain/device/nvml.h"

namespace cxtrain {
const Node& Hardware::node(int n) const {
  if (nodes.empty() || n < 0) throw std::logic_error("a hardware description has at least one node");
  return nodes[std::min(static_cast<std::size_t>(n), nodes.size() - 1)];
}

Hardware probe_hardware() {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = hostname();
  node.cores = cores_of_this_process();
  node.gpus = read_gpus_from_nvml();
#ifndef CXTRAIN_WITH_CUDA
  hardware.gpu_support = false;
#endif
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

}  // namespace cxtrain
