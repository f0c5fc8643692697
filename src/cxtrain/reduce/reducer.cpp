#include "cxtrain/reduce/reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/ones.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/reduce/buckets.h"
#include "cxtrain/reduce/step_flags.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {

Reducer::Reducer(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
                 ReducerOptions options)
    : communicator_(communicator),
      node_memory_(communicator.node_memory()),
      world_(world),
      options_(options),
      carries_flags_(node_memory_ != nullptr && communicator.size() == world.size()) {
  for (NamedTensor& parameter : parameters) {
    if (!parameter.tensor.requires_grad()) {
      frozen_.push_back(std::move(parameter));
      continue;
    }
    parameters_.push_back({std::move(parameter.name), std::move(parameter.tensor), {}});
  }
  allocate_arenas();
  // Backward reaches the last layers first.
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  lay_out(order);
  hook_gradients(tensors(), *this);
}

Reducer::~Reducer() {
  unhook_gradients(tensors());
  for (Parameter& parameter : parameters_) {
    // An arena lives as long as a gradient in it; and one that is left on a parameter which is frozen from
    // now on would be taken for a new one.
    parameter.tensor.mutable_grad().reset();
  }
}

void Reducer::allocate_arenas() {
  // One piece of memory per dtype and device of parameters; its size does not depend on how it is cut into
  // buckets.
  std::vector<std::size_t> everything(parameters_.size());
  std::iota(everything.begin(), everything.end(), std::size_t{0});
  const std::int64_t flags = carries_flags_ ? gap_before_flags() + kStepFlags : 0;
  for (const BucketPlan& plan : plan_buckets(shapes(), everything, 0, 0)) {
    const at::Tensor& first = parameters_[plan.parameters.front()].tensor;
    arenas_.push_back(communicator_.allocate(plan.numel + flags, first.scalar_type(), first.device()));
    wires_.emplace_back();
    if (options_.wire_dtype && node_memory_ == nullptr &&
        c10::elementSize(*options_.wire_dtype) < first.itemsize()) {
      wires_.back() = communicator_.allocate(plan.numel, *options_.wire_dtype, first.device());
    }
  }
  if (node_memory_ == nullptr) return;
  std::vector<std::size_t> sizes = transformed(tensors(), &at::Tensor::nbytes);
  if (carries_flags_) sizes.push_back(kStepFlags * sizeof(double));  // flags in the largest dtype
  pool_ = node_memory_->mem_pool(sizes);
}

std::vector<at::Tensor> Reducer::tensors() const { return transformed(parameters_, &Parameter::tensor); }

std::vector<ParameterShape> Reducer::shapes() const { return transformed(tensors(), shape_of); }

void Reducer::lay_out(std::span<const std::size_t> order) {
  buckets_.clear();
  std::vector<std::int64_t> used(arenas_.size(), 0);
  for (const BucketPlan& plan :
       plan_buckets(shapes(), order, options_.first_bucket_bytes, options_.bucket_bytes)) {
    const at::Tensor& first = parameters_[plan.parameters.front()].tensor;
    const auto arena = static_cast<std::size_t>(
        std::ranges::find_if(arenas_,
                             [&](const at::Tensor& known) { return same_dtype_and_device(known, first); }) -
        arenas_.begin());
    const std::int64_t begin = std::exchange(used[arena], used[arena] + plan.numel);
    at::Tensor flat = arenas_[arena].narrow(0, begin, plan.numel);
    std::vector<NodeMemory::Slice> slices;
    for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
      Parameter& parameter = parameters_[plan.parameters[i]];
      parameter.view = slice_like(flat, plan.offsets[i], parameter.tensor);
      parameter.bucket = buckets_.size();
      parameter.slice = i;
      slices.push_back({plan.offsets[i], parameter.view});
    }
    const std::size_t pending = slices.size();  // the layout may change after begin_backward
    at::Tensor wire = wires_[arena].defined() ? wires_[arena].narrow(0, begin, plan.numel) : at::Tensor();
    buckets_.push_back({.flat = std::move(flat),
                        .slices = std::move(slices),
                        .pending = pending,
                        .parameters = plan.parameters,
                        .wire = std::move(wire)});
  }
  if (carries_flags_ && !buckets_.empty()) add_flags();
  find_exact_buckets();
}

/// Flags are large, gradients may be small. In one block of ScaledHalf they would share a power of two, and
/// the gradients would round to zero.
std::int64_t Reducer::gap_before_flags() const {
  return options_.wire_dtype == at::kHalf ? static_cast<std::int64_t>(ScaledHalf::kValues) : 0;
}

/// The last bucket is the last one of its arena, which has room for the flags behind it.
void Reducer::add_flags() {
  Bucket& last = buckets_.back();
  const std::int64_t begin = last.flat.numel() + gap_before_flags();
  last.flat = last.flat.as_strided({begin + kStepFlags}, {1});
  flags_ = last.flat.narrow(0, begin, kStepFlags);
  one_ = at::ones({1}, flags_.options());
  last.slices.push_back({begin, flags_});
}

bool Reducer::carry(std::uint64_t flags) {
  if (!flags_.defined()) return false;
  auto* const to = static_cast<std::byte*>(flags_.mutable_data_ptr());
  const auto* const one = static_cast<const std::byte*>(one_.const_data_ptr());
  const std::size_t bytes = one_.nbytes();
  std::fill_n(to, flags_.nbytes(), std::byte{0});
  for (std::size_t i = 0; i < kStepFlags; ++i) {
    if ((flags >> i & 1) != 0) std::copy_n(one, bytes, to + i * bytes);
  }
  return true;
}

std::uint64_t Reducer::carried() const {
  const auto* const from = static_cast<const std::byte*>(flags_.const_data_ptr());
  const std::size_t bytes = one_.nbytes();
  std::uint64_t flags = 0;
  for (std::size_t i = 0; i < kStepFlags; ++i) {
    const bool set = std::any_of(from + i * bytes, from + (i + 1) * bytes,
                                 [](std::byte byte) { return byte != std::byte{0}; });
    flags |= std::uint64_t{set} << i;
  }
  return flags;
}

void Reducer::find_exact_buckets() {
  exact_buckets_ = 0;
  if (!options_.round_exposed_only) return;
  std::int64_t parameters = 0;
  for (const Bucket& bucket : buckets_) {
    parameters += static_cast<std::int64_t>(bucket.parameters.size());
    if (exact_parameters_ && parameters > *exact_parameters_) return;
    ++exact_buckets_;
  }
}

std::string Reducer::unfrozen() const {
  const auto found =
      std::ranges::find_if(frozen_, [](const NamedTensor& named) { return named.tensor.requires_grad(); });
  return found == frozen_.end() ? std::string() : found->name;
}

bool Reducer::outdated() const {
  return !unfrozen().empty() ||
         std::ranges::any_of(parameters_, [](const Parameter& p) { return !p.tensor.requires_grad(); });
}

void Reducer::begin_backward(bool synchronize) {
  if (pool_ != nullptr) pool_in_use_.emplace(pool_);
  averaged_ = false;
  synchronize_ = synchronize;
  if (!synchronize) return;
  next_bucket_ = 0;
  observed_order_.clear();
  for (Parameter& parameter : parameters_) parameter.ready = false;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.parameters.size();
  const bool measures =
      options_.round_exposed_only && !exact_parameters_ && !order_.empty() && !lay_out_next_;
  ready_.assign(measures ? buckets_.size() : 0, 0);
  if (measures) backward_began_ = clock_.now();
}

void Reducer::on_gradient(std::size_t index) {
  const std::lock_guard lock(gradients_arrive_);
  Parameter& parameter = parameters_[index];
  Bucket& bucket = buckets_[parameter.bucket];
  if (bucket.on_device()) {
    bucket.streams.note(bucket.flat.device());
  } else {
    move_in(parameter);
  }
  parameter.touched = true;
  if (!synchronize_) return;
  if (parameter.bucket < next_bucket_) throw second_gradient(parameter.name, "bucket");
  if (parameter.ready) return;
  parameter.ready = true;
  if (order_.empty()) observed_order_.push_back(index);
  --bucket.pending;
  if (bucket.pending == 0 && !ready_.empty()) ready_[parameter.bucket] = clock_.now() - backward_began_;
  if (options_.overlap && !order_.empty()) send_ready_buckets();
}

void Reducer::move_in(Parameter& parameter) {
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  at::Tensor& slice = slice_of(parameter);
  if (gradient.is_same(slice))
    return;  // not the first since zero_gradients, when autograd made a tensor for it
  if (!reducible_in_pool(pool_.get(), gradient, parameter.view)) {
    // To copy it into the bucket costs half of what to add it to zeros there would.
    const at::NoGradGuard no_grad;
    parameter.view.copy_(gradient);
    gradient = parameter.view;
  }
  slice = gradient;
}

void Reducer::gather(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  bucket.streams.join_first();
  std::vector<at::Tensor> views, gradients;
  for (const std::size_t index : bucket.parameters) {
    Parameter& parameter = parameters_[index];
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (!parameter.touched || gradient.is_same(slice_of(parameter))) continue;
    // Its memory is the other stream's to give away again, which must not be before the copy.
    if (bucket.streams.several()) gradient.record_stream(bucket.streams.first());
    views.push_back(parameter.view);
    gradients.push_back(std::exchange(gradient, parameter.view));
  }
  if (!views.empty()) at::_foreach_copy_(views, gradients);
}

void Reducer::send_ready_buckets() {
  while (next_bucket_ < buckets_.size() && buckets_[next_bucket_].pending == 0) {
    send(next_bucket_++);
  }
}

void Reducer::send(std::size_t index) {
  Bucket& bucket = buckets_[index];
  const BucketRange in_trace(index, bucket.flat.nbytes());
  std::optional<c10::StreamGuard> there;
  if (bucket.on_device()) {
    if (bucket.streams.empty()) bucket.streams.note(bucket.flat.device());
    there.emplace(bucket.streams.first());
    gather(bucket);
  }
  if (bucket.wire.defined() && rounds(index)) {
    const at::NoGradGuard no_grad;
    return communicator_.all_reduce(bucket.wire.copy_(bucket.flat), ReduceOp::avg);
  }
  if (node_memory_ == nullptr) return communicator_.all_reduce(bucket.flat, ReduceOp::avg);
  node_memory_->all_reduce_slices(bucket.flat, bucket.slices, ReduceOp::avg,
                                  rounds(index) ? options_.wire_dtype : std::nullopt);
}

void Reducer::finish() {
  if (std::exchange(averaged_, true)) return;
  end_backward();
  const double backward_ended = ready_.empty() ? 0 : clock_.now() - backward_began_;
  if (!synchronize_) next_bucket_ = 0;  // nothing has travelled yet
  fill_untouched();
  for (Bucket& bucket : buckets_) bucket.pending = 0;
  send_ready_buckets();
  communicator_.join();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const at::NoGradGuard no_grad;
    if (buckets_[i].wire.defined() && rounds(i)) buckets_[i].flat.copy_(buckets_[i].wire);
  }
  if (!ready_.empty()) choose_rounded(backward_ended);
  if (options_.find_unused_parameters) forget_unused();
  if (order_.empty() && synchronize_ && !parameters_.empty()) agree_on_order();
  synchronize_ = false;
}

std::optional<Rehearsal> Reducer::rehearse(RehearsedMessages messages) {
  if (!flags_.defined()) return std::nullopt;
  Rehearsal made{.waits_for_backward = !options_.overlap && communicator_.overlaps()};
  for (std::size_t first = 0; first < buckets_.size();) {
    const bool few = messages == RehearsedMessages::few;
    const std::size_t end = few ? end_of_message(first, communicator_.message_bytes()) : first + 1;
    send_together(first, end);
    made.last_bytes = 0;
    for (; first < end; ++first) {
      const at::Tensor& flat = buckets_[first].flat;
      const at::ScalarType dtype = rounds(first) ? *options_.wire_dtype : flat.scalar_type();
      made.last_bytes += flat.numel() * static_cast<std::int64_t>(c10::elementSize(dtype));
    }
    made.bytes += made.last_bytes;
    ++made.messages;
  }
  communicator_.join();
  return made;
}

std::size_t Reducer::end_of_message(std::size_t first, std::int64_t bytes) const {
  const at::Tensor& begin = buckets_[first].flat;
  auto sum = static_cast<std::int64_t>(begin.nbytes());
  std::size_t end = first + 1;
  for (; end < buckets_.size(); ++end) {
    const at::Tensor& next = buckets_[end].flat;
    sum += static_cast<std::int64_t>(next.nbytes());
    if (sum > bytes || !next.is_alias_of(begin) || rounds(end) != rounds(first)) break;
  }
  return end;
}

void Reducer::send_together(std::size_t first, std::size_t end) {
  if (end == first + 1) return send(first);
  const std::int64_t begin = buckets_[first].flat.storage_offset();
  std::vector<NodeMemory::Slice> slices;
  for (std::size_t i = first; i < end; ++i) {
    const std::int64_t offset = buckets_[i].flat.storage_offset() - begin;
    for (const NodeMemory::Slice& slice : buckets_[i].slices)
      slices.push_back({offset + slice.offset, slice.values});
  }
  const at::Tensor& last = buckets_[end - 1].flat;
  const std::int64_t elements = last.storage_offset() - begin + last.numel();
  node_memory_->all_reduce_slices(buckets_[first].flat.as_strided({elements}, {1}), slices, ReduceOp::avg,
                                  rounds(first) ? options_.wire_dtype : std::nullopt);
}

void Reducer::fill_untouched() {
  std::string names;
  const bool skipped = std::ranges::none_of(parameters_, [](const Parameter& p) { return p.touched; });
  for (Parameter& parameter : parameters_) {
    if (parameter.touched) continue;
    const at::NoGradGuard no_grad;
    parameter.view.zero_();
    if (Bucket& bucket = buckets_[parameter.bucket]; bucket.on_device())
      bucket.streams.note(bucket.flat.device());
    parameter.tensor.mutable_grad() = parameter.view;
    slice_of(parameter) = parameter.view;
    if (!warned_unused_) names += (names.empty() ? "" : ", ") + parameter.name;
  }
  if (names.empty() || skipped || options_.find_unused_parameters) return;
  warned_unused_ = true;
  warn_of_missing_gradients(names);
}

void Reducer::forget_unused() {
  const std::vector<bool> touched =
      touched_on_any_rank(transformed(parameters_, &Parameter::touched), world_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!touched[i]) parameters_[i].tensor.mutable_grad().reset();
  }
}

void Reducer::agree_on_order() {
  // Rank 0's holds for all. A rank that skips a batch observes none.
  const std::vector<std::size_t> order = broadcast_value(world_, observed_order_);
  if (!order.empty()) use_order(order);
}

void Reducer::use_order(std::vector<std::size_t> order) {
  std::vector<bool> seen(parameters_.size(), false);
  for (const std::size_t index : order) seen[index] = true;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) order.push_back(i);  // those that were not reached go last
  }
  order_ = std::move(order);
  lay_out_next_ = true;
}

/// Rank 0's times hold for all. Without a speed of the links only the last bucket is sure to be late.
void Reducer::choose_rounded(double backward_ended) {
  std::vector<BucketTimes> times;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const auto travel =
        communicator_.seconds_between_nodes(static_cast<std::int64_t>(buckets_[i].flat.nbytes()));
    if (travel) times.push_back({.ready = options_.overlap ? ready_[i] : backward_ended, .travel = *travel});
  }
  std::size_t first = buckets_.size() - 1;
  if (!times.empty() || !options_.overlap) first = first_exposed_bucket(times, backward_ended);
  std::int64_t exact = 0;
  for (std::size_t i = 0; i < first; ++i) exact += static_cast<std::int64_t>(buckets_[i].parameters.size());
  set_exact_parameters(broadcast_value(world_, exact));
  ready_.clear();
  if (!world_.is_root()) return;
  std::size_t rounded = 0, all = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    all += buckets_[i].flat.nbytes();
    if (rounds(i)) rounded += buckets_[i].flat.nbytes();
  }
  log_info("strategy.comm_hook: auto rounds " + readable_bytes(static_cast<std::int64_t>(rounded)) + " of " +
           readable_bytes(static_cast<std::int64_t>(all)) +
           " of gradients, those that would arrive after backward otherwise");
}

void Reducer::set_exact_parameters(std::int64_t number) {
  exact_parameters_ = number;
  find_exact_buckets();
}

std::vector<std::string> Reducer::order() const {
  return transformed(order_, [&](std::size_t index) { return parameters_[index].name; });
}

void Reducer::set_order(std::span<const std::string> names) {
  std::vector<std::size_t> order;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(parameters_, name, &Parameter::name);
    if (found != parameters_.end()) order.push_back(static_cast<std::size_t>(found - parameters_.begin()));
  }
  use_order(std::move(order));
}

void Reducer::zero_gradients() {
  for (Parameter& parameter : parameters_) {
    parameter.tensor.mutable_grad().reset();
    slice_of(parameter) = parameter.view;  // lets go of the gradient's memory
    parameter.touched = false;
  }
  averaged_ = false;
  for (Bucket& bucket : buckets_) bucket.streams.clear();
  if (std::exchange(lay_out_next_, false)) lay_out(order_);  // while there is nothing in the buckets to move
}

}  // namespace cxtrain
