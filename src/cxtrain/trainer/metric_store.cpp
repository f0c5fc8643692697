#include "cxtrain/trainer/metric_store.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <sstream>

namespace cxtrain {
double MetricStore::Scalar::read() const { return device.defined() ? device.item<double>() : host; }

MetricStore::Entry& MetricStore::entry(std::string_view name, const LogOptions& options) {
  for (Entry& known : entries_) {
    if (known.name == name && known.phase == phase_) return known;
  }
  Entry& added = entries_.emplace_back();
  added.name = name;
  added.phase = phase_;
  const bool training = phase_ == Phase::training;
  added.on_step = options.on_step.value_or(training);
  added.on_epoch = options.on_epoch.value_or(!training);
  added.prog_bar = options.prog_bar;
  added.logger = options.logger;
  return added;
}

void MetricStore::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (phase_ == Phase::none) return;
  if (const std::optional<double> number = host_metric(name, value)) return log(name, *number, options);
  const at::NoGradGuard no_grad;
  Entry& metric = entry(name, options);
  metric.step.device = value.detach();
  metric.fresh = true;
  if (!metric.on_epoch) return;
  if (!metric.sum.device.defined()) metric.sum.device = at::zeros({}, value.options().dtype(at::kDouble));
  metric.sum.device.add_(metric.step.device.reshape({}), static_cast<double>(samples_));
  metric.weight += static_cast<double>(samples_);
}

void MetricStore::log(std::string_view name, double value, const LogOptions& options) {
  if (phase_ == Phase::none) return;
  Entry& metric = entry(name, options);
  metric.step.host = value;
  metric.fresh = true;
  if (!metric.on_epoch) return;
  metric.sum.host += value * static_cast<double>(samples_);
  metric.weight += static_cast<double>(samples_);
}

void MetricStore::begin_batch(Phase phase, std::int64_t samples) {
  phase_ = phase;
  samples_ = samples;
}

std::string MetricStore::step_name(const Entry& metric) {
  return metric.on_epoch ? metric.name + "_step" : metric.name;
}
std::string MetricStore::epoch_name(const Entry& metric) {
  return metric.on_step ? metric.name + "_epoch" : metric.name;
}

MetricStore::Values MetricStore::take_step_values() {
  Values values;
  for (Entry& metric : entries_) {
    if (!metric.on_step || !metric.logger || !metric.fresh || metric.phase != Phase::training) continue;
    metric.fresh = false;
    values.emplace_back(step_name(metric), metric.step.read());
  }
  return values;
}

MetricStore::Values MetricStore::reduce_epoch(Phase phase, World& world, Strategy& strategy) {
  std::map<std::string, std::pair<double, double>> sums;  // name -> sum, weight
  std::string mine;
  for (Entry& metric : entries_) {
    if (metric.phase != phase || !metric.on_epoch || metric.weight == 0) continue;
    sums[metric.name] = {metric.sum.read(), metric.weight};
    mine += metric.name + '\n';
  }
  if (world.size() > 1) {
    // A rank that had no sample left in an uneven evaluation has logged nothing; all must reduce the same
    // list.
    for (const std::string& names : world.all_gather(mine)) {
      std::istringstream lines(names);
      for (std::string name; std::getline(lines, name);) sums.try_emplace(name);
    }
  }
  std::vector<double> flat;
  for (const auto& [name, sum] : sums) flat.insert(flat.end(), {sum.first, sum.second});
  strategy.reduce_metrics(flat);

  discard_epoch(phase);
  Values means;
  std::size_t position = 0;
  phase_ = phase;
  for (const auto& [name, sum] : sums) {
    const double total = flat[position], weight = flat[position + 1];
    position += 2;
    Entry& metric = entry(name, {});
    metric.mean = weight > 0 ? total / weight : 0.0;
    if (metric.logger) means.emplace_back(epoch_name(metric), *metric.mean);
  }
  phase_ = Phase::none;
  return means;
}

void MetricStore::discard_epoch(Phase phase) {
  for (Entry& metric : entries_) {
    if (metric.phase != phase) continue;
    metric.sum = {};
    metric.weight = 0;
  }
}

std::optional<double> MetricStore::last(std::string_view name) const {
  for (const Entry& metric : entries_) {
    if (metric.name == name || epoch_name(metric) == name) {
      if (metric.on_epoch) return metric.mean;
      return metric.step.read();
    }
    if (metric.on_step && step_name(metric) == name) return metric.step.read();
  }
  return std::nullopt;
}

MetricStore::Values MetricStore::progress_bar() const {
  Values values;
  for (const Entry& metric : entries_) {
    if (!metric.prog_bar) continue;
    if (metric.on_epoch && metric.mean) {
      values.emplace_back(epoch_name(metric), *metric.mean);
    } else if (metric.on_step) {
      values.emplace_back(step_name(metric), metric.step.read());
    }
  }
  return values;
}

std::map<std::string, double> MetricStore::all() const {
  std::map<std::string, double> values;
  for (const Entry& metric : entries_) {
    if (metric.on_step) values[step_name(metric)] = metric.step.read();
    if (metric.on_epoch && metric.mean) values[epoch_name(metric)] = *metric.mean;
  }
  return values;
}

void MetricStore::set(std::string_view name, double value) {
  for (Entry& known : entries_) {
    if (known.name == name && known.phase == Phase::none) {
      known.step.host = value;
      return;
    }
  }
  Entry& added = entries_.emplace_back();
  added.name = name;
  added.on_step = true;
  added.step.host = value;
}

}  // namespace cxtrain
