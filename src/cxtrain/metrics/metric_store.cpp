#include "cxtrain/metrics/metric_store.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {

template <>
struct ChoiceOf<ReduceFx> {
  static constexpr std::array<std::string_view, 4> words{"mean", "sum", "min", "max"};
};

namespace {

/// A metric of one rank, on its way to the others.
struct MetricLine {
  std::string hook, name;
  bool on_step = false, prog_bar = false, logger = true;
  ReduceFx fx = ReduceFx::mean;
  double value = 0, weight = 0;
  std::string metric = {};  ///< whose value this is, and so that of all ranks

  void fields(auto&& field) {
    CXTRAIN_EACH(field, hook, name, on_step, prog_bar, logger, fx, value, weight, metric);
  }
  bool same_metric(const MetricLine& other) const { return name == other.name && hook == other.hook; }
  /// Takes in another rank's value.
  void merge(const MetricLine& other) {
    if (!metric.empty()) return;
    weight += other.weight;
    value = combined(fx, value, other.value);
  }
  double result() const {
    if (fx != ReduceFx::mean || !metric.empty()) return value;
    return weight > 0 ? value / weight : 0.0;
  }
};

/// The ranks' metrics, each once, in the order in which ranks have them; the same on all ranks. One exchange
/// brings names and values, since a rank that had no sample left in an uneven epoch knows neither.
std::vector<MetricLine> merge_over_ranks(std::vector<MetricLine> mine, World& world) {
  if (world.size() == 1) return mine;
  std::vector<MetricLine> merged;
  for (std::vector<MetricLine>& rank : gather_values(world, mine)) {
    for (MetricLine& line : rank) {
      const auto known =
          std::ranges::find_if(merged, [&](const MetricLine& other) { return line.same_metric(other); });
      if (known == merged.end()) {
        merged.push_back(std::move(line));
      } else {
        known->merge(line);
      }
    }
  }
  return merged;
}

}  // namespace

MetricStore::Entry* MetricStore::find_or_create(std::string_view logged, const LogOptions& options) {
  if (scope_.rule == nullptr) return nullptr;
  const std::string with_suffix = suffix_.empty() ? std::string() : std::string(logged) + suffix_;
  const std::string_view name = suffix_.empty() ? logged : std::string_view(with_suffix);
  const LogRule& rule = *scope_.rule;
  for (Entry& known : entries_) {
    if (known.name == name && known.hook == rule.hook) return &known;
  }

  const std::string call = "log(\"" + std::string(name) + "\") in " + rule.hook;
  if (rule.allowed == LogRule::Allowed::nothing) {
    throw TrainingError(
        call +
            ": nothing can be logged there, since no row of metrics follows; log it in a step, or "
            "at the end of an epoch",
        MessageCode::log_misuse);
  }
  if (rule.allowed == LogRule::Allowed::ignored) {
    if (std::ranges::find(warned_, rule.hook) == warned_.end()) {
      warned_.emplace_back(rule.hook);
      log_warning(call + " has no effect: the last row of metrics is written by then");
    }
    return nullptr;
  }
  if (rule.allowed == LogRule::Allowed::epoch && options.on_step.value_or(false)) {
    throw TrainingError(call + ": the hook belongs to no step; leave out on_step", MessageCode::log_misuse);
  }
  if (!is_one_line(name)) {
    throw TrainingError("log() in " + std::string(rule.hook) + ": a metric's name is one line of text",
                        MessageCode::log_misuse);
  }
  const bool on_step = options.on_step.value_or(rule.on_step),
             on_epoch = options.on_epoch.value_or(!rule.on_step);
  if (!on_step && !on_epoch) {
    throw TrainingError(call + ": neither on_step nor on_epoch, so no row would have the value; add on_epoch",
                        MessageCode::log_misuse);
  }
  Entry& added = entry_of(rule.hook, name);
  added.phase = rule.phase;
  added.on_step = on_step;
  added.on_epoch = on_epoch;
  added.prog_bar = options.prog_bar;
  added.logger = options.logger;
  added.sync_dist = options.sync_dist;
  added.fx = options.reduce_fx;
  return &added;
}

double MetricStore::weight_of(const LogOptions& options) const {
  return static_cast<double>(options.batch_size.value_or(scope_.samples));
}

template <class Value>
void MetricStore::record(std::string_view name, const Value& value, const LogOptions& options) {
  Entry* metric = find_or_create(name, options);
  if (metric == nullptr) return;
  metric->set_step(value, ++changes_);
  if (metric->on_epoch) metric->epoch.add(metric->fx, value, weight_of(options));
}

void MetricStore::log(std::string_view name, const at::Tensor& value, const LogOptions& options) {
  if (const std::optional<double> number = host_metric(name, value)) return record(name, *number, options);
  const at::NoGradGuard no_grad;
  record(name, value.detach(), options);
}

void MetricStore::log(std::string_view name, double value, const LogOptions& options) {
  record(name, value, options);
}

void MetricStore::log(std::string_view name, Metric& metric, const LogOptions& options) {
  Entry* entry = find_or_create(name, options);
  if (entry == nullptr) return;
  if (entry->metric.empty()) begin_metric(*entry, metric);
  if (entry->on_epoch) entry->epoch.weight = 1;
  if (!entry->on_step) return;
  const at::Tensor value = metric.value();
  ++changes_;
  if (const std::optional<double> number = host_metric(name, value)) {
    entry->set_step(*number, changes_);
  } else {
    entry->set_step(value, changes_);
  }
  metric.end_batch();
}

void MetricStore::begin_metric(Entry& entry, const Metric& metric) {
  const std::string call = "log(\"" + entry.name + "\") in " + entry.hook;
  if (model_metrics_.find(metric.name()) != &metric) {
    throw TrainingError(call + ": the metric is not one of the model; make it by register_metric",
                        MessageCode::log_misuse);
  }
  const auto splits_as_well = [&](const Entry& other) {
    return &other != &entry && entry.on_step && other.on_step && other.metric == metric.name() &&
           other.hook == entry.hook;
  };
  if (std::ranges::any_of(entries_, splits_as_well)) {
    throw TrainingError(call + ": metric " + metric.name() + " is logged on_step under another name, too",
                        MessageCode::log_misuse);
  }
  const at::Tensor value = metric.value();
  if (value.numel() != 1) {
    throw TrainingError(c10::str(call, ": metric ", metric.name(), " is not one number but of shape ",
                                 value.sizes(), "; read its compute() in the hook at the end of the epoch"),
                        MessageCode::log_misuse);
  }
  entry.metric = metric.name();
}

MetricStore::StepValues MetricStore::take_step_values() {
  StepValues taken;
  std::vector<at::Tensor> on_devices;
  bool any_on_device = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& metric = entries_[i];
    if (!metric.on_step || !metric.logger || !metric.fresh || metric.phase != Phase::training) continue;
    metric.fresh = false;
    const bool known = metric.step.on_host();
    taken.values.push_back({i, metric.step_at, known ? metric.step.read() : 0, metric.sync_dist});
    on_devices.push_back(metric.step.on_device());
    any_on_device = any_on_device || !known;
  }
  if (any_on_device) taken.from_devices = AsyncScalars(on_devices);
  return taken;
}

MetricStore::Values MetricStore::read(const StepValues& taken, World& world) {
  const std::vector<double> from_devices = taken.from_devices.wait();
  std::vector<double> values;
  std::vector<MetricLine> synchronised;
  for (std::size_t i = 0; i < taken.values.size(); ++i) {
    const StepValues::Value& value = taken.values[i];
    values.push_back(from_devices.empty() ? value.host : value.host + from_devices[i]);
    const Entry& metric = entries_[value.entry];
    if (value.sync_dist) {
      synchronised.push_back(
          {.hook = metric.hook, .name = metric.name, .fx = metric.fx, .value = values[i], .weight = 1});
    }
  }
  // A rank without a sample in this step has logged nothing, and still takes part.
  const bool reduces = world.size() > 1 && world.any_rank(!synchronised.empty());
  if (reduces) synchronised = merge_over_ranks(std::move(synchronised), world);
  Values result;
  for (std::size_t i = 0; i < taken.values.size(); ++i) {
    const StepValues::Value& value = taken.values[i];
    Entry& metric = entries_[value.entry];
    if (reduces && value.sync_dist) {
      for (const MetricLine& line : synchronised) {
        if (line.name == metric.name && line.hook == metric.hook) values[i] = line.result();
      }
    }
    if (metric.step_at == value.at) {  // no newer one has been logged since
      metric.step.set(values[i]);
      metric.step_is_reduced = reduces && value.sync_dist;
    }
    result.emplace_back(metric.step_name(), values[i]);
  }
  return result;
}

MetricStore::Values MetricStore::reduce_epoch(Phase phase, World& world) {
  const PhaseScope logging(cxtrain::Phase::logging);
  std::vector<MetricLine> mine;
  for (Entry& metric : entries_) {
    if (metric.phase != phase || !metric.on_epoch || metric.epoch.weight == 0) continue;
    const Metric* object = metric.metric.empty() ? nullptr : model_metrics_.find(metric.metric);
    const double value = object != nullptr ? object->value().item<double>() : metric.epoch.read(metric.fx);
    mine.push_back({metric.hook, metric.name, metric.on_step, metric.prog_bar, metric.logger, metric.fx,
                    value, metric.epoch.weight, metric.metric});
    metric.epoch = {};
  }
  Values values;
  for (const MetricLine& line : merge_over_ranks(std::move(mine), world)) {
    Entry& metric = entry_of(line.hook, line.name);
    metric.phase = phase;
    metric.on_step = line.on_step;
    metric.on_epoch = true;
    metric.prog_bar = line.prog_bar;
    metric.logger = line.logger;
    metric.fx = line.fx;
    metric.metric = line.metric;
    metric.reduced = line.result();
    metric.epoch_at = ++changes_;
    if (metric.logger) values.emplace_back(metric.epoch_name(), *metric.reduced);
  }
  return values;
}

MetricStore::Entry& MetricStore::entry_of(std::string_view hook, std::string_view name) {
  for (Entry& known : entries_) {
    if (known.name == name && known.hook == hook) return known;
  }
  Entry& added = entries_.emplace_back();
  added.hook = hook;
  added.name = name;
  return added;
}

void MetricStore::forget_epoch(Phase phase) {
  for (Entry& metric : entries_) {
    if (metric.phase == phase) metric.epoch = {};
  }
}

template <class Visit>
void MetricStore::visit_latest(Visit&& visit) const {
  for (const Entry& metric : entries_) {
    if (metric.on_step && metric.stepped) visit(metric, metric.step_name(), metric.step_at, false);
    if (metric.on_epoch && metric.reduced) visit(metric, metric.epoch_name(), metric.epoch_at, true);
  }
}

MetricStore::Latest MetricStore::latest(std::string_view name) const {
  Latest found;
  visit_latest([&](const Entry& metric, const std::string& own_name, std::uint64_t at, bool of_epoch) {
    if (at > found.at && (name == own_name || name == metric.name)) found = {&metric, of_epoch, at};
  });
  return found;
}

std::optional<double> MetricStore::last(std::string_view name) const {
  const Latest found = latest(name);
  if (found.entry == nullptr) return std::nullopt;
  return found.of_epoch ? *found.entry->reduced : found.entry->step.read();
}

std::optional<double> MetricStore::last_of_all_ranks(std::string_view name, World& world) const {
  const Latest found = latest(name);
  const bool own = found.entry == nullptr || (!found.of_epoch && !found.entry->step_is_reduced);
  const std::optional<double> value = last(name);
  if (world.size() == 1 || !world.any_rank(own)) return value;
  double sums[] = {value.value_or(0), value ? 1.0 : 0.0};
  world.sum(sums);
  if (sums[1] == 0) return std::nullopt;
  return sums[0] / sums[1];
}

void MetricStore::refuse_unlogged(const std::string& follows) const {
  const std::string known = joined(all(), ", ", [](const auto& metric) { return metric.first; });
  throw TrainingError(
      follows + ", but nothing of this name has been logged; logged: " + (known.empty() ? "nothing" : known),
      MessageCode::log_misuse);
}

std::vector<MetricStore::BarValue> MetricStore::bar_values() const {
  return newest([](const Entry& metric, const MetricScalar&) { return metric.prog_bar; });
}

std::map<std::string, double> MetricStore::all() const {
  return by_name(newest([](const Entry&, const MetricScalar&) { return true; }));
}

std::map<std::string, double> MetricStore::all_on_host() const {
  return by_name(newest([](const Entry&, const MetricScalar& value) { return !value.waits(); }));
}

/// The newest of the wanted values of each name.
template <class Wanted>
std::vector<MetricStore::BarValue> MetricStore::newest(Wanted&& wanted) const {
  std::vector<BarValue> found;
  visit_latest([&](const Entry& metric, const std::string& name, std::uint64_t at, bool of_epoch) {
    MetricScalar value = metric.step;
    if (of_epoch) value.set(*metric.reduced);
    if (!wanted(metric, value)) return;
    const auto known = std::ranges::find(found, name, &BarValue::name);
    if (known == found.end()) {
      found.push_back({name, at, std::move(value)});
    } else if (at >= known->at) {
      *known = {name, at, std::move(value)};
    }
  });
  return found;
}

std::map<std::string, double> MetricStore::by_name(const std::vector<BarValue>& values) {
  std::map<std::string, double> numbers;
  for (const BarValue& each : values) numbers.emplace(each.name, each.value.read());
  return numbers;
}

}  // namespace cxtrain
