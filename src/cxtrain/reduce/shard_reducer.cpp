#include "cxtrain/reduce/shard_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "cxtrain/base/transformed.h"
#include "cxtrain/reduce/buckets.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

/// Rows whose gradients the ranks of a node may read (`NodeMemory::begin_scatter`), and the row at hand.
constexpr std::size_t kUnderWayOnNode = 3;

}  // namespace

ShardReducer::ShardReducer(std::vector<NamedTensor> parameters, std::vector<DividedRow> rows, int shard,
                           Communicator& communicator, World& world, ShardReducerOptions options)
    : shard_(shard),
      communicator_(communicator),
      node_memory_(communicator.node_memory()),
      most_under_way_(node_memory_ == nullptr ? 1 : kUnderWayOnNode),
      world_(world),
      options_(options) {
  for (DividedRow& planned : rows) {
    for (std::size_t& i : planned.parameters) {
      index_of_.emplace(parameters[i].tensor.unsafeGetTensorImpl(), parameters_.size());
      parameters_.push_back({std::move(parameters[i].name), std::move(parameters[i].tensor), rows_.size()});
      i = parameters_.size() - 1;
    }
    rows_.push_back({std::move(planned), {}});
  }
  allocate();
  hook_gradients(tensors(), *this);
}

ShardReducer::~ShardReducer() {
  unhook_gradients(tensors());
  for (Parameter& parameter : parameters_) parameter.tensor.mutable_grad().reset();  // some lie in the pool
}

std::vector<at::Tensor> ShardReducer::tensors() const { return transformed(parameters_, &Parameter::tensor); }

void ShardReducer::allocate() {
  std::vector<std::int64_t> longest;
  for (Row& row : rows_) {
    const at::Tensor& first = parameters_[row.parameters.front()].tensor;
    const auto options = first.options().requires_grad(false);
    row.share = at::empty({row.plan.share}, options);
    for (std::size_t k = 0; k < row.parameters.size(); ++k) {
      Parameter& parameter = parameters_[row.parameters[k]];
      const at::Tensor own = own_part(row, k, row.share);
      parameter.shard.values =
          own.numel() == parameter.tensor.numel() ? own.view(parameter.tensor.sizes()) : own;
    }
    const auto same = std::ranges::find_if(
        buffers_, [&](const at::Tensor& buffer) { return same_dtype_and_device(buffer, first); });
    row.buffer = static_cast<std::size_t>(same - buffers_.begin());
    if (same == buffers_.end()) {
      buffers_.push_back(at::empty({0}, options));
      longest.push_back(0);
    }
    longest[row.buffer] = std::max(longest[row.buffer], row.elements());
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i] = communicator_.allocate(static_cast<std::int64_t>(most_under_way_) * longest[i],
                                         buffers_[i].scalar_type(), buffers_[i].device());
  if (node_memory_ == nullptr) return;
  pool_ = node_memory_->mem_pool(transformed(tensors(), &at::Tensor::nbytes));
}

bool ShardReducer::trains(const Row& row) const {
  return std::ranges::any_of(row.parameters,
                             [&](std::size_t i) { return parameters_[i].tensor.requires_grad(); });
}

ElementRange ShardReducer::own_range(const Row& row, std::size_t k) const {
  return row.plan.shards[static_cast<std::size_t>(shard_)][k];
}

at::Tensor ShardReducer::own_part(const Row& row, std::size_t k, const at::Tensor& share) const {
  const ElementRange range = own_range(row, k);
  const std::int64_t begin = row.plan.offsets[k] + range.begin - row.plan.share * shard_;
  return share.narrow(0, range.size() > 0 ? begin : 0, range.size());
}

const GradientShard* ShardReducer::shard_of(const at::Tensor& parameter) const {
  const auto found = index_of_.find(parameter.unsafeGetTensorImpl());
  return found == index_of_.end() ? nullptr : &parameters_[found->second].shard;
}

void ShardReducer::zero_gradients() {
  for (Parameter& parameter : parameters_) {
    parameter.tensor.mutable_grad().reset();
    parameter.shard.present = parameter.touched = false;
  }
  for (Row& row : rows_) {
    row.streams.clear();
    row.has_averages = false;
  }
  next_row_ = 0;
  averaged_ = false;
}

void ShardReducer::begin_backward(bool completes_step) {
  if (pool_ != nullptr) pool_in_use_.emplace(pool_);
  averaged_ = false;
  completes_step_ = completes_step;
  reduces_ = completes_step || options_.accumulate_shards;
  next_row_ = 0;
  for (Row& row : rows_) row.pending = 0;
  for (Parameter& parameter : parameters_) {
    parameter.ready = false;
    if (parameter.tensor.requires_grad()) ++rows_[parameter.row].pending;
  }
}

void ShardReducer::on_gradient(std::size_t index) {
  const std::lock_guard lock(gradients_arrive_);
  Parameter& parameter = parameters_[index];
  Row& row = rows_[parameter.row];
  if (!parameter.tensor.is_cpu()) row.streams.note(parameter.tensor.device());
  parameter.touched = true;
  if (!reduces_) return;
  if (parameter.row < next_row_) throw second_gradient(parameter.name, "row");
  if (parameter.ready) return;
  parameter.ready = true;
  --row.pending;
  if (options_.overlap) send_ready_rows();
}

void ShardReducer::end_backward() {
  pool_in_use_.reset();
  if (!std::exchange(reduces_, false)) return;
  if (completes_step_) warn_of_untouched();
  send_remaining_rows();
  if (options_.accumulate_shards) accumulate();
}

void ShardReducer::finish() {
  if (std::exchange(averaged_, true)) return;
  pool_in_use_.reset();
  reduces_ = false;
  if (next_row_ == 0) warn_of_untouched();
  send_remaining_rows();
  communicator_.join();
  finish_row();
  mark_present();
}

void ShardReducer::send_rows(std::size_t count) {
  while (reduces_ && next_row_ < count) send(rows_[next_row_++]);
}

void ShardReducer::send_remaining_rows() {
  for (Row& row : rows_) row.pending = 0;
  send_ready_rows();
  if (node_memory_ != nullptr) node_memory_->end_scatters();
  under_way_.clear();
}

void ShardReducer::send_ready_rows() {
  while (next_row_ < rows_.size() && rows_[next_row_].pending == 0) send(rows_[next_row_++]);
}

void ShardReducer::send(Row& row) {
  const at::NoGradGuard no_grad;
  if (!trains(row)) return;
  std::optional<c10::StreamGuard> there;
  const at::Tensor& buffer = buffers_[row.buffer];
  if (!buffer.is_cpu()) {
    if (row.streams.empty()) row.streams.note(buffer.device());
    there.emplace(row.streams.first());
    row.streams.join_first();
    communicator_.join();  // the last row has left the buffer
  }
  finish_row();
  const at::Tensor memory = next_memory(row);
  reduce(row, memory, collect(row, memory));
  std::vector<at::Tensor>& gradients = under_way_.emplace_back();
  for (const std::size_t i : row.parameters) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    // Its memory is the other stream's to give away again, which must not be before the copy.
    if (gradient.defined() && row.streams.several()) gradient.record_stream(row.streams.first());
    gradients.push_back(std::exchange(gradient, at::Tensor()));
  }
  if (under_way_.size() == most_under_way_) under_way_.erase(under_way_.begin());
}

at::Tensor ShardReducer::next_memory(const Row& row) {
  const at::Tensor& buffer = buffers_[row.buffer];
  const std::int64_t part = buffer.numel() / static_cast<std::int64_t>(most_under_way_);
  return buffer.narrow(0, part * static_cast<std::int64_t>(sent_++ % most_under_way_), row.elements());
}

std::optional<Rehearsal> ShardReducer::rehearse() {
  if (node_memory_ == nullptr || rows_.empty()) return std::nullopt;
  Rehearsal made{.waits_for_backward = !options_.overlap && communicator_.overlaps()};
  for (Row& row : rows_) {
    if (!trains(row)) continue;
    finish_row();
    const at::Tensor memory = next_memory(row);
    std::vector<NodeMemory::Slice> slices;
    for (std::size_t k = 0; k < row.parameters.size(); ++k) {
      const std::int64_t offset = row.plan.offsets[k];
      slices.push_back({offset, slice_like(memory, offset, parameters_[row.parameters[k]].tensor)});
    }
    reduce(row, memory, std::move(slices));
    made.last_bytes = static_cast<std::int64_t>(memory.nbytes());
    made.bytes += made.last_bytes;
    ++made.messages;
  }
  node_memory_->end_scatters();
  communicator_.join();
  finish_row();
  for (const Row& row : rows_) {
    if (row.plan.shards.size() != static_cast<std::size_t>(communicator_.size())) continue;
    communicator_.all_gather(next_memory(row), row.share);
    communicator_.join();
  }
  return made;
}

std::vector<NodeMemory::Slice> ShardReducer::collect(Row& row, const at::Tensor& memory) {
  std::vector<NodeMemory::Slice> slices;
  std::vector<at::Tensor> to, from;
  for (std::size_t k = 0; k < row.parameters.size(); ++k) {
    const at::Tensor& tensor = parameters_[row.parameters[k]].tensor;
    const at::Tensor& gradient = tensor.grad();
    at::Tensor place = slice_like(memory, row.plan.offsets[k], tensor);
    if (!gradient.defined()) {
      place.zero_();
    } else if (reducible_in_pool(pool_.get(), gradient, place)) {
      place = gradient;
    } else {
      to.push_back(place);
      from.push_back(gradient);
    }
    slices.push_back({row.plan.offsets[k], std::move(place)});
  }
  if (!to.empty()) at::_foreach_copy_(to, from);
  return slices;
}

void ShardReducer::reduce(Row& row, const at::Tensor& memory, std::vector<NodeMemory::Slice> slices) {
  const BucketRange in_trace(static_cast<std::size_t>(&row - rows_.data()), memory.nbytes());
  if (row.plan.shards.size() != static_cast<std::size_t>(communicator_.size()))
    return reduce_within_node(row, memory, std::move(slices));
  if (node_memory_ == nullptr) return communicator_.reduce_scatter(target_of(row), memory, ReduceOp::avg);
  node_memory_->begin_scatter({target_of(row), memory, std::move(slices)}, ReduceOp::avg);
}

const at::Tensor& ShardReducer::target_of(Row& row) {
  if (!row.has_averages) return row.share;
  if (!row.of_micro_batch.defined()) row.of_micro_batch = at::zeros_like(row.share);
  return row.of_micro_batch;
}

void ShardReducer::accumulate() {
  finish_row();
  communicator_.join();
  const at::NoGradGuard no_grad;
  for (Row& row : rows_) {
    if (trains(row) && std::exchange(row.has_averages, true)) row.share.add_(row.of_micro_batch);
  }
}

/// The shards are a node's: every node needs the averages over all ranks. They travel while backward makes
/// the gradients of the next row.
void ShardReducer::reduce_within_node(Row& row, const at::Tensor& memory,
                                      std::vector<NodeMemory::Slice> slices) {
  // The memory behind the last slice depends on the number of ranks of a node.
  const at::Tensor used = memory.narrow(0, 0, slices.back().offset + slices.back().values.numel());
  if (node_memory_ != nullptr) {
    node_memory_->all_reduce_slices(used, slices, ReduceOp::avg);
  } else {
    communicator_.all_reduce(used, ReduceOp::avg);
  }
  travels_ = TravellingRow{&row, std::move(slices)};
}

void ShardReducer::finish_row() {
  if (!travels_) return;
  communicator_.join();
  Row& row = *travels_->row;
  for (std::size_t k = 0; k < row.parameters.size(); ++k) {
    const ElementRange range = own_range(row, k);
    own_part(row, k, target_of(row))
        .copy_(flat(travels_->slices[k].values).narrow(0, range.begin, range.size()));
  }
  travels_.reset();
}

void ShardReducer::warn_of_untouched() {
  std::string names;
  bool skipped = true;
  for (const Parameter& parameter : parameters_) {
    if (parameter.touched) skipped = false;
    if (!parameter.touched && parameter.tensor.requires_grad())
      names += (names.empty() ? "" : ", ") + parameter.name;
  }
  if (names.empty() || skipped || warned_unused_ || options_.find_unused_parameters) return;
  warned_unused_ = true;
  warn_of_missing_gradients(names);
}

void ShardReducer::mark_present() {
  std::vector<bool> used(parameters_.size(), true);
  if (options_.find_unused_parameters)
    used = touched_on_any_rank(transformed(parameters_, &Parameter::touched), world_);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].shard.present = used[i] && parameters_[i].tensor.requires_grad();
}

}  // namespace cxtrain
