#include "cxtrain/metrics/bar_reader.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>

namespace cxtrain {

MetricStore::Values BarReader::read(const MetricStore& metrics) {
  MetricStore::Values values;
  for (const MetricStore::BarValue& each : metrics.bar_values())
    values.emplace_back(each.name, each.value.read());
  return values;
}

MetricStore::Values BarReader::read_arrived(const MetricStore& metrics) {
  if (coming_ && coming_->arrived()) {
    const std::vector<double> values = coming_->wait();
    for (std::size_t i = 0; i < values.size(); ++i) arrived_[names_[i]] = values[i];
    coming_.reset();
  }
  MetricStore::Values values;
  std::vector<std::string> names;
  std::vector<at::Tensor> on_devices;
  for (const MetricStore::BarValue& each : metrics.bar_values()) {
    if (each.value.on_host()) {
      values.emplace_back(each.name, each.value.read());
      continue;
    }
    names.push_back(each.name);
    on_devices.push_back(each.value.on_device());
    if (const auto known = arrived_.find(each.name); known != arrived_.end()) values.emplace_back(*known);
  }
  if (!coming_ && !names.empty()) {
    coming_.emplace(on_devices);
    names_ = std::move(names);
  }
  return values;
}

}  // namespace cxtrain
