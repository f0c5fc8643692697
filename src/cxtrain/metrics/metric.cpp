#include "cxtrain/metrics/metric.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/metrics/moments.h"

namespace cxtrain {
namespace {

/// Rows [n, ...] behind those of `state`, in memory of twice the size whenever it is full.
void append_rows(at::Tensor& state, at::Tensor& memory, const at::Tensor& rows) {
  if (rows.size(0) == 0) return;
  const std::int64_t before = state.size(0), count = before + rows.size(0);
  const bool grows_there = memory.defined() && state.is_alias_of(memory) && memory.size(0) >= count;
  if (!grows_there) {
    std::vector<std::int64_t> shape = state.sizes().vec();
    shape[0] = std::max<std::int64_t>(2 * count, 64);
    memory = at::empty(shape, state.options());
    memory.narrow(0, 0, before).copy_(state);
  }
  memory.narrow(0, before, rows.size(0)).copy_(rows);
  state = memory.narrow(0, 0, count);
}

/// The shapes that a state of this initial value can have: rows come and go.
bool fits(const Metric::State& state, const at::Tensor& value) {
  if (value.scalar_type() != state.initial.scalar_type() || value.dim() != state.initial.dim()) return false;
  const std::size_t from = state.reduce == Reduce::cat ? 1 : 0;
  return value.sizes().slice(from) == state.initial.sizes().slice(from);
}

}  // namespace

Metric::Updating::Updating(Metric& metric) {
  if (metric.reduced_) {
    throw TrainingError("metric " + metric.name_ +
                            ": update() at the end of an epoch, when the states are those of all ranks; call "
                            "it in the steps",
                        MessageCode::log_misuse);
  }
  ++metric.updates_;
}

void Metric::update(const at::Tensor&, const at::Tensor&) {
  throw TrainingError("metric " + name_ + ": its class has no update(preds, target); see its header",
                      MessageCode::log_misuse);
}

at::Tensor& Metric::add_state(std::string name, at::Tensor initial, Reduce reduce) {
  const auto same = [&](const State& state) { return state.name == name; };
  if (std::ranges::any_of(states_, same))
    throw ConfigError("model", "a metric has two states `" + name + "`", "", MessageCode::bad_model);
  if (reduce == Reduce::sum && initial.count_nonzero().item<std::int64_t>() != 0)
    throw ConfigError("model", "the state `" + name + "` of a metric is a sum and does not begin with zeros",
                      "", MessageCode::bad_model);
  if (reduce == Reduce::cat && (initial.dim() == 0 || initial.size(0) != 0))
    throw ConfigError("model", "the state `" + name + "` of a metric has rows, and begins with some", "",
                      MessageCode::bad_model);
  states_.push_back({std::move(name), std::move(initial), reduce});
  memory_.emplace_back();
  return current_.emplace_back(states_.back().initial.clone());
}

void Metric::append(const at::Tensor& state, const at::Tensor& rows) {
  const StateGuard guard;
  for (std::size_t i = 0; i < current_.size(); ++i) {
    if (&current_[i] == &state) return append_rows(current_[i], memory_[i], rows.detach());
  }
  throw TrainingError("metric " + name_ + ": append() to a tensor that add_state() did not return",
                      MessageCode::log_misuse);
}

at::Tensor Metric::here(const at::Tensor& tensor) const {
  const at::Tensor plain = tensor.detach();
  return plain.device() == device_ ? plain : plain.to(device_, plain.scalar_type(), /*non_blocking=*/true);
}

Metric::Values Metric::initial_values() const {
  const StateGuard guard;
  return {.tensors = transformed(states_, [](const State& state) { return state.initial.clone(); }),
          .memory = std::vector<at::Tensor>(states_.size())};
}

Metric::Values Metric::take_current() {
  Values values{.memory = std::exchange(memory_, {}), .updates = std::exchange(updates_, 0)};
  for (at::Tensor& tensor : current_) values.tensors.push_back(std::move(tensor));
  return values;
}

void Metric::set_current(Values values) {
  std::move(values.tensors.begin(), values.tensors.end(), current_.begin());
  memory_ = std::move(values.memory);
  updates_ = values.updates;
}

void Metric::reset() {
  set_current(initial_values());
  before_ = {};
  reduced_ = false;
}

void Metric::add(Values& into, const Values& more) const {
  const StateGuard guard;
  const std::int64_t all = into.updates + more.updates;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    at::Tensor& value = into.tensors[i];
    const at::Tensor other = more.tensors[i].detach().to(device_, value.scalar_type());
    switch (states_[i].reduce) {
      case Reduce::sum:
        value = value.add(other);
        break;
      case Reduce::mean: {
        const double share = all > 0 ? static_cast<double>(more.updates) / static_cast<double>(all) : 0;
        value = value.mul(1 - share).add(other, share);
        break;
      }
      case Reduce::min:
        value = at::minimum(value, other);
        break;
      case Reduce::max:
        value = at::maximum(value, other);
        break;
      case Reduce::moments:
        value = join_moments(value, other);
        break;
      case Reduce::cat:
        append_rows(value, into.memory[i], other);
        break;
    }
  }
  into.updates = all;
}

void Metric::merge(const Metric& other) {
  const auto same = [](const State& a, const State& b) { return a.name == b.name && a.reduce == b.reduce; };
  if (!std::equal(states_.begin(), states_.end(), other.states_.begin(), other.states_.end(), same))
    throw TrainingError("metric " + name_ + ": merge() with a metric of other states",
                        MessageCode::log_misuse);
  Values merged = take_current();
  if (!other.before_.tensors.empty()) add(merged, other.before_);
  add(merged,
      {.tensors = {other.current_.begin(), other.current_.end()}, .memory = {}, .updates = other.updates_});
  set_current(std::move(merged));
}

void Metric::to(at::Device device) {
  const StateGuard guard;
  device_ = device;
  for (State& state : states_) state.initial = state.initial.to(device);
  for (at::Tensor& tensor : current_) tensor = tensor.to(device);
  for (at::Tensor& tensor : before_.tensors) tensor = tensor.to(device);
}

at::Tensor Metric::value() const {
  const StateGuard guard;
  return compute();
}

void Metric::end_batch() {
  Values batch = take_current();
  set_current(initial_values());
  if (before_.tensors.empty()) {
    for (at::Tensor& tensor : batch.tensors) tensor = tensor.detach();
    before_ = std::move(batch);
  } else {
    add(before_, batch);
  }
}

void Metric::collect() {
  if (before_.tensors.empty()) return;
  Values all = std::exchange(before_, {});
  add(all, take_current());
  set_current(std::move(all));
}

void Metric::set_reduced(std::vector<at::Tensor> values, std::int64_t updates) {
  std::vector<at::Tensor> memory(values.size());
  set_current({.tensors = std::move(values), .memory = std::move(memory), .updates = updates});
  before_ = {};
  reduced_ = true;
}

Metric::Kept Metric::take() {
  Kept kept{.now = take_current(), .before = std::exchange(before_, {}), .reduced = reduced_};
  reset();
  return kept;
}

void Metric::put(Kept kept) {
  set_current(std::move(kept.now));
  before_ = std::move(kept.before);
  reduced_ = kept.reduced;
}

void Metric::save(StateDict& state) const {
  state.set("updates", updates_);
  state.set("updates_before", before_.updates);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    StateDict& section = state.make_section(states_[i].name);
    section.set("reduce", static_cast<int>(states_[i].reduce));
    section.set("now", current_[i].contiguous());
    if (!before_.tensors.empty()) section.set("before", before_.tensors[i].contiguous());
  }
}

void Metric::load(const StateDict& state) {
  const StateGuard guard;
  Values now{.memory = std::vector<at::Tensor>(states_.size()), .updates = state.integer("updates")};
  Values before{.memory = now.memory, .updates = state.integer("updates_before")};
  for (const State& own : states_) {
    const StateDict& section = state.section(own.name);
    const auto read = [&](const char* part) {
      const at::Tensor& saved = section.tensor(part);
      if (!fits(own, saved) || section.integer("reduce") != static_cast<int>(own.reduce)) {
        throw StateError(c10::str("the saved state `", own.name, "` of metric ", name_, " is a ",
                                  saved.sizes(), ", and the model's a ", own.initial.sizes()),
                         MessageCode::model_mismatch);
      }
      return saved.to(device_).clone();
    };
    now.tensors.push_back(read("now"));
    if (section.has("before")) before.tensors.push_back(read("before"));
  }
  if (!before.tensors.empty() && before.tensors.size() != states_.size())
    throw StateError("the saved state of metric " + name_ + " has only some of the values before");
  put({.now = std::move(now), .before = std::move(before)});
}

FreshStates::FreshStates(std::vector<Metric*> metrics)
    : metrics_(std::move(metrics)), kept_(transformed(metrics_, &Metric::take)) {}

FreshStates::~FreshStates() {
  for (std::size_t i = 0; i < metrics_.size(); ++i) metrics_[i]->put(std::move(kept_[i]));
}

}  // namespace cxtrain
