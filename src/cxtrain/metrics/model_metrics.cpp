#include "cxtrain/metrics/model_metrics.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/metrics/moments.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

bool is_sum(const Metric::State& state) {
  return state.reduce == Reduce::sum || state.reduce == Reduce::mean;
}

template <class Visit>
void visit_states(const Metric& metric, bool sums, Visit&& visit) {
  for (std::size_t i = 0; i < metric.states().size(); ++i) {
    if (is_sum(metric.states()[i]) == sums) visit(metric.states()[i], i);
  }
}

/// The sums, means and counts of all metrics, as one row of float64 on the host.
class FlatSums {
 public:
  FlatSums(std::span<Metric* const> metrics, std::int64_t bytes_to_gather) {
    std::vector<at::Tensor> parts{at::scalar_tensor(bytes_to_gather, at::kDouble).reshape({1})};
    for (const Metric* metric : metrics) {
      const auto updates = static_cast<double>(metric->updates());
      parts.push_back(at::scalar_tensor(updates, at::kDouble).reshape({1}));
      visit_states(*metric, /*sums=*/true, [&](const Metric::State& state, std::size_t i) {
        const at::Tensor flat = metric->state(i).detach().reshape({-1}).to(at::kDouble);
        parts.push_back(state.reduce == Reduce::mean ? flat.mul(updates) : flat);
      });
    }
    for (const at::Tensor& part : parts) {
      if (!part.is_cpu()) device_ = part.device();
    }
    for (at::Tensor& part : parts) part = part.to(device_);
    numbers_ = at::cat(parts).cpu();
  }

  std::span<double> numbers() {
    return {numbers_.mutable_data_ptr<double>(), static_cast<std::size_t>(numbers_.numel())};
  }
  /// The next number, or the next numbers as a state; in the order of the constructor.
  double next() { return numbers_[place_++].item<double>(); }
  at::Tensor next(const Metric::State& state) {
    const at::Tensor found = numbers_.narrow(0, place_, state.initial.numel());
    place_ += state.initial.numel();
    return found.reshape(state.initial.sizes());
  }

 private:
  at::Device device_ = at::kCPU;
  at::Tensor numbers_;
  std::int64_t place_ = 0;
};

void write_state(std::string& text, const at::Tensor& value) {
  const at::Tensor host = on_host(value.detach());
  const std::int64_t rows = host.dim() == 0 ? 1 : host.size(0);
  text.append(reinterpret_cast<const char*>(&rows), sizeof rows);
  text.append(host_bytes(host));
}

/// Reads what `write_state` wrote. `text` loses what was read.
at::Tensor read_state(std::string_view& text, const Metric::State& state) {
  std::int64_t rows = 0;
  std::memcpy(&rows, text.data(), sizeof rows);
  std::vector<std::int64_t> shape = state.initial.sizes().vec();
  if (!shape.empty()) shape[0] = rows;
  const at::Tensor value = at::empty(shape, state.initial.options().device(at::kCPU));
  const std::size_t bytes = value.nbytes();
  if (bytes > 0) std::memcpy(value.mutable_data_ptr(), text.data() + sizeof rows, bytes);
  text.remove_prefix(sizeof rows + bytes);
  return value;
}

/// Halves the number of parts until one is left.
at::Tensor join_all(const std::vector<at::Tensor>& parts) {
  at::Tensor all = at::stack(parts);
  while (all.size(0) > 1) {
    const std::int64_t half = all.size(0) / 2;
    const at::Tensor pairs = join_moments(all.narrow(0, 0, half), all.narrow(0, half, half));
    all = all.size(0) % 2 == 0 ? pairs : at::cat({pairs, all.narrow(0, 2 * half, 1)});
  }
  return all[0];
}

at::Tensor combine(Reduce reduce, const std::vector<at::Tensor>& values) {
  switch (reduce) {
    case Reduce::cat:
      return at::cat(values);
    case Reduce::moments:
      return join_all(values);
    case Reduce::min:
      return std::get<0>(at::stack(values).min(0));
    case Reduce::max:
      return std::get<0>(at::stack(values).max(0));
    default:
      return values.front();
  }
}

/// The states of all metrics that are not sums, of all ranks.
class Gathered {
 public:
  explicit Gathered(std::span<Metric* const> metrics) {
    for (const Metric* metric : metrics) {
      visit_states(*metric, /*sums=*/false, [&](const Metric::State&, std::size_t i) {
        any_ = true;
        write_state(text_, metric->state(i));
      });
    }
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(text_.size()); }
  /// Collective if there is a state, which is so on all ranks or on none.
  void exchange(World& world) {
    if (!any_) return;
    ranks_ = world.all_gather(text_);
    left_.assign(ranks_.begin(), ranks_.end());
  }
  /// The next state, in the order of the constructor.
  at::Tensor next(const Metric::State& state) {
    std::vector<at::Tensor> values;
    for (std::string_view& rank : left_) values.push_back(read_state(rank, state));
    return combine(state.reduce, values);
  }

 private:
  bool any_ = false;
  std::string text_;
  std::vector<std::string> ranks_;
  std::vector<std::string_view> left_;  ///< of `ranks_`
};

void require_room(double bytes) {
  if (bytes <= static_cast<double>(std::numeric_limits<int>::max())) return;
  throw TrainingError("the metrics of all ranks keep " + std::to_string(bytes / (1 << 30)) +
                          " GiB of rows, and at most 2 GiB can be gathered; give curves `thresholds`, or "
                          "validate on fewer samples",
                      MessageCode::out_of_memory);
}

void take_over(Metric& metric, FlatSums& sums, Gathered& gathered) {
  const auto updates = static_cast<std::int64_t>(sums.next());
  std::vector<at::Tensor> values;
  for (const Metric::State& state : metric.states()) {
    at::Tensor value = is_sum(state) ? sums.next(state) : gathered.next(state);
    if (state.reduce == Reduce::mean)
      value = updates > 0 ? value.div(static_cast<double>(updates)) : state.initial;
    values.push_back(value.to(metric.device(), state.initial.scalar_type(), false, /*copy=*/true));
  }
  metric.set_reduced(std::move(values), updates);
}

void leave_as_they_are(std::span<Metric* const> metrics) {
  for (Metric* metric : metrics) {
    std::vector<at::Tensor> values;
    for (std::size_t i = 0; i < metric->states().size(); ++i) values.push_back(metric->state(i));
    metric->set_reduced(std::move(values), metric->updates());
  }
}

}  // namespace

void reduce_over_ranks(std::span<Metric* const> metrics, World& world) {
  if (metrics.empty()) return;
  const c10::InferenceMode everywhere(false);
  const at::NoGradGuard no_grad;
  for (Metric* metric : metrics) metric->collect();
  if (world.size() == 1) return leave_as_they_are(metrics);
  Gathered gathered(metrics);
  FlatSums sums(metrics, gathered.bytes());
  world.sum(sums.numbers());
  require_room(sums.next());
  gathered.exchange(world);
  for (Metric* metric : metrics) take_over(*metric, sums, gathered);
}

namespace {

/// Adds the values of a state that `part` ("now", "before") has in a section.
void add_saved(StateDict& into, const StateDict& from, const char* part, double updates, double more) {
  if (!from.has(part)) return;
  const at::Tensor& other = from.tensor(part);
  if (!into.has("now")) {
    into.set("now", other.clone());
    return;
  }
  const at::Tensor own = into.tensor("now");
  const auto reduce = static_cast<Reduce>(from.integer("reduce"));
  const double share = updates + more > 0 ? more / (updates + more) : 0;
  const at::Tensor sum = reduce == Reduce::sum    ? own.add(other)
                         : reduce == Reduce::mean ? own.mul(1 - share).add(other, share)
                                                  : combine(reduce, {own, other});
  StateDict replaced;
  replaced.set("reduce", from.integer("reduce"));
  replaced.set("now", sum);
  into = replaced;
}

}  // namespace

StateDict merge_saved_metric(std::span<const StateDict* const> saved) {
  StateDict merged;
  double updates = 0;
  for (const StateDict* rank : saved) {
    for (const char* part : {"before", "now"}) {
      const auto more =
          static_cast<double>(rank->integer(part == std::string("now") ? "updates" : "updates_before"));
      for (const auto& [name, section] : rank->sections()) {
        StateDict& into = merged.make_section(name);
        into.set("reduce", section.integer("reduce"));
        add_saved(into, section, part, updates, more);
      }
      updates += more;
    }
  }
  merged.set("updates", static_cast<std::int64_t>(updates));
  merged.set("updates_before", std::int64_t{0});
  return merged;
}

Metric* ModelMetrics::find(std::string_view name) const {
  const auto found = std::ranges::find(metrics_, name, &Metric::name);
  return found == metrics_.end() ? nullptr : *found;
}

void ModelMetrics::reduce(World& world) {
  const PhaseScope logging(Phase::logging);
  reduce_over_ranks(metrics_, world);
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
    const auto ranks = transformed(
        saved, [&index = index](const StateDict* rank) { return &rank->section(index).section("values"); });
    StateDict& section = into.make_section(index);
    section.set("name", first.text("name"));
    section.make_section("values") = merge_saved_metric(ranks);
  }
}

}  // namespace cxtrain
