#include "cxtrain/metrics/metric_reduction.h"
#include "cxtrain/metrics/metric_store.h"

/// What a metric store remembers, to the bit: values of an epoch that is under way go on as the sums that
/// they are.
namespace cxtrain {

void MetricScalar::save(StateDict& state) const { state.set("value", read()); }
void MetricScalar::load(const StateDict& state) { set(state.real("value")); }

void MetricAccumulator::save(StateDict& state) const {
  state.set("host", host);
  state.set("on_host", on_host);
  state.set("weight", weight);
  if (device.defined()) state.set("device", device);
}

void MetricAccumulator::load(const StateDict& state) {
  host = state.real("host");
  on_host = state.boolean("on_host");
  weight = state.real("weight");
  device = state.has("device") ? state.tensor("device").clone() : at::Tensor();
}

void MetricStore::Entry::save(StateDict& state) const {
  state.set("hook", hook);
  state.set("name", name);
  state.set("metric", metric);
  state.set("phase", static_cast<int>(phase));
  state.set("fx", static_cast<int>(fx));
  state.set("on_step", on_step);
  state.set("on_epoch", on_epoch);
  state.set("prog_bar", prog_bar);
  state.set("logger", logger);
  state.set("sync_dist", sync_dist);
  state.set("fresh", fresh);
  state.set("stepped", stepped);
  state.set("step_is_reduced", step_is_reduced);
  state.set("step_at", step_at);
  state.set("epoch_at", epoch_at);
  if (reduced) state.set("reduced", *reduced);
  step.save(state.make_section("step"));
  epoch.save(state.make_section("epoch"));
}

void MetricStore::Entry::load(const StateDict& state) {
  hook = state.text("hook");
  name = state.text("name");
  metric = state.has("metric") ? state.text("metric") : std::string();  // older states have none
  phase = static_cast<Phase>(state.integer("phase"));
  fx = static_cast<ReduceFx>(state.integer("fx"));
  on_step = state.boolean("on_step");
  on_epoch = state.boolean("on_epoch");
  prog_bar = state.boolean("prog_bar");
  logger = state.boolean("logger");
  sync_dist = state.boolean("sync_dist");
  fresh = state.boolean("fresh");
  stepped = state.boolean("stepped");
  step_is_reduced = state.boolean("step_is_reduced");
  step_at = static_cast<std::uint64_t>(state.integer("step_at"));
  epoch_at = static_cast<std::uint64_t>(state.integer("epoch_at"));
  reduced.reset();
  if (state.has("reduced")) reduced = state.real("reduced");
  step.load(state.section("step"));
  epoch.load(state.section("epoch"));
}

void MetricStore::save(StateDict& state) const {
  state.set("changes", changes_);
  state.set("metrics", entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].save(state.make_section(std::to_string(i)));
  if (!metrics_.empty()) save_metrics(state.make_section("states"));
}

void MetricStore::save_metrics(StateDict& state) const {
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    StateDict& section = state.make_section(std::to_string(i));
    section.set("name", metrics_[i]->name());
    metrics_[i]->save(section.make_section("values"));
  }
}

/// A metric that the saved model did not have begins with its initial states.
void MetricStore::load_metrics(const StateDict& state) {
  for (Metric* metric : metrics_) metric->reset();
  if (!state.has_section("states")) return;
  for (const auto& [index, section] : state.section("states").sections()) {
    if (Metric* metric = find_metric(section.text("name"))) metric->load(section.section("values"));
  }
}

namespace {

/// The states of the model's metrics: those of all ranks, added.
void merge_saved_states(std::span<const StateDict> saved, StateDict& into) {
  if (!saved.front().has_section("states")) return;
  for (const auto& [index, first] : saved.front().section("states").sections()) {
    std::vector<const StateDict*> ranks;
    for (const StateDict& rank : saved)
      ranks.push_back(&rank.section("states").section(index).section("values"));
    StateDict& section = into.make_section("states").make_section(index);
    section.set("name", first.text("name"));
    section.make_section("values") = merge_saved_metric(ranks);
  }
}

}  // namespace

StateDict MetricStore::for_other_ranks(std::span<const StateDict> saved, int rank) {
  MetricStore merged;
  merged.load(saved.front());
  for (Entry& entry : merged.entries_) {
    if (rank != 0) entry.epoch = {};
  }
  for (const StateDict& of_rank : saved.subspan(1)) {
    if (rank != 0) break;
    MetricStore other;
    other.load(of_rank);
    for (Entry& entry : merged.entries_) {
      for (const Entry& theirs : other.entries_) {
        if (theirs.name == entry.name && theirs.hook == entry.hook) entry.epoch.merge(entry.fx, theirs.epoch);
      }
    }
  }
  StateDict state;
  merged.save(state);
  if (rank == 0) merge_saved_states(saved, state);
  return state;
}

void MetricStore::load(const StateDict& state) {
  std::vector<Entry> entries;
  const std::int64_t count = state.integer("metrics");
  // One by one: a count that is damaged ends at the section that is missing, and not with the memory.
  for (std::int64_t i = 0; i < count; ++i) entries.emplace_back().load(state.section(std::to_string(i)));
  load_metrics(state);
  entries_ = std::move(entries);
  changes_ = static_cast<std::uint64_t>(state.integer("changes"));
}

}  // namespace cxtrain
