#include "cxtrain/metrics/model_metrics.h"

#include <cstddef>
#include <string>
#include <utility>

#include "cxtrain/base/phase_clock.h"
#include "cxtrain/metrics/metric_reduction.h"

namespace cxtrain {

void ModelMetrics::set(std::vector<Metric*> metrics) {
  metrics_ = std::move(metrics);
  reset();
}

Metric* ModelMetrics::find(std::string_view name) const {
  for (Metric* metric : metrics_) {
    if (metric->name() == name) return metric;
  }
  return nullptr;
}

void ModelMetrics::reduce(World& world) {
  const PhaseScope logging(Phase::logging);
  reduce_over_ranks(metrics_, world);
}

void ModelMetrics::reset() {
  for (Metric* metric : metrics_) metric->reset();
}

void ModelMetrics::save(StateDict& state) const {
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    StateDict& section = state.make_section(std::to_string(i));
    section.set("name", metrics_[i]->name());
    metrics_[i]->save(section.make_section("values"));
  }
}

void ModelMetrics::load(const StateDict& state) {
  for (const auto& [index, section] : state.sections()) {
    if (Metric* metric = find(section.text("name"))) metric->load(section.section("values"));
  }
}

void ModelMetrics::merge(std::span<const StateDict* const> saved, StateDict& into) {
  for (const auto& [index, first] : saved.front()->sections()) {
    std::vector<const StateDict*> ranks;
    for (const StateDict* rank : saved) ranks.push_back(&rank->section(index).section("values"));
    StateDict& section = into.make_section(index);
    section.set("name", first.text("name"));
    section.make_section("values") = merge_saved_metric(ranks);
  }
}

}  // namespace cxtrain
