#include "cxtrain/metrics/metric_store.h"

#include <algorithm>
#include <utility>

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
  if (!model_metrics_.empty()) model_metrics_.save(state.make_section("states"));
}

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
    for (Entry& theirs : other.entries_) {
      const auto own = std::ranges::find_if(merged.entries_, [&](const Entry& each) {
        return each.name == theirs.name && each.hook == theirs.hook;
      });
      if (own != merged.entries_.end()) {
        own->epoch.merge(own->fx, theirs.epoch);
      } else {
        theirs.fresh = false;  // a value of another rank's step
        merged.entries_.push_back(std::move(theirs));
      }
    }
  }
  StateDict state;
  merged.save(state);
  if (rank != 0 || !saved.front().has_section("states")) return state;
  std::vector<const StateDict*> states;
  for (const StateDict& of_rank : saved) states.push_back(&of_rank.section("states"));
  ModelMetrics::merge(states, state.make_section("states"));
  return state;
}

void MetricStore::load(const StateDict& state) {
  std::vector<Entry> entries;
  const std::int64_t count = state.integer("metrics");
  // One by one: a count that is damaged ends at the section that is missing, and not with the memory.
  for (std::int64_t i = 0; i < count; ++i) entries.emplace_back().load(state.section(std::to_string(i)));
  model_metrics_.reset();
  if (state.has_section("states")) model_metrics_.load(state.section("states"));
  entries_ = std::move(entries);
  changes_ = static_cast<std::uint64_t>(state.integer("changes"));
}

}  // namespace cxtrain
