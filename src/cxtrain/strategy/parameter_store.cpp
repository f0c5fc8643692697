#include "cxtrain/strategy/parameter_store.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/tensor/layout.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

/// Norms of float16 and bfloat16 gradients are float32.
bool has_double_norms(const PlacedRow& row) { return row.share.scalar_type() == at::kDouble; }

}  // namespace

ParameterStore::ParameterStore(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                               GradientExchange& exchange, Communicator* group, std::vector<PlacedRow> rows)
    : exchange_(exchange), group_(group), rows_(std::move(rows)) {
  const at::NoGradGuard no_grad;
  std::vector<Piece> parts = whole_pieces(parameters);
  for (NamedTensor& named : parameters) {
    const GradientShard* const shard = exchange.shard_of(named.tensor);
    const bool has_master = precision.has_master(named.tensor.scalar_type());
    parameters_.push_back({.named = std::move(named), .shard = shard, .has_master = has_master});
  }
  for (const PlacedRow& row : rows_) {
    for (std::size_t k = 0; k < row.row.parameters.size(); ++k) {
      const std::size_t i = row.row.parameters[k];
      parameters_[i].divided = true;
      parts[i] = row.part(k, parameters_[i].named, group_->rank());
    }
  }
  if (!rows_.empty()) one_copy_ = rows_.front().one_copy.get();  // one array has all rows
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].divided || parts[i].range.size() > 0) add_piece(i, std::move(parts[i]));
  }
  gradients_.resize(pieces_.size());
  held_.resize(parameters_.size());
}

void ParameterStore::add_piece(std::size_t parameter, Piece in_model) {
  parameters_[parameter].piece = pieces_.size();
  updates_.push_back({.parameter = parameter});
  if (parameters_[parameter].has_master)
    add_master(in_model, parameters_[parameter].named.tensor.requires_grad());
  pieces_.push_back(std::move(in_model));
}

void ParameterStore::add_master(Piece& piece, bool trained) {
  const auto alike = [&](const Masters& masters) {
    return same_dtype_and_device(masters.rounded.front(), piece.values);
  };
  auto masters = std::ranges::find_if(masters_, alike);
  if (masters == masters_.end()) masters = masters_.emplace(masters_.end());
  masters->rounded.push_back(piece.values);
  piece.values = piece.values.detach().to(at::kFloat).set_requires_grad(trained);
  masters->precise.push_back(piece.values);
}

at::Tensor ParameterStore::gradient_of(std::size_t p) const {
  const Piece& piece = pieces_[p];
  const Parameter& parameter = parameters_[updates_[p].parameter];
  if (parameter.shard != nullptr) return parameter.shard->present ? parameter.shard->values : at::Tensor();
  const at::Tensor& whole = parameter.named.tensor.grad();
  if (piece.is_whole() || !whole.defined()) return whole;
  if (!whole.is_contiguous()) {  // its part would be a copy, which nobody scales or clips
    throw TrainingError("the gradient of " + piece.name +
                        " is laid out in another order than the parameter; a hook that sets a gradient "
                        "makes it contiguous()");
  }
  return whole.detach().view(-1).slice(0, piece.range.begin, piece.range.end);
}

/// Returns the gradient of a master, in memory of the object and in the strides of the master.
at::Tensor ParameterStore::in_float32(Update& update, const at::Tensor& gradient, const at::Tensor& master) {
  if (!gradient.defined()) {
    update.gradient.reset();
  } else {
    if (!update.gradient.defined()) update.gradient = at::empty_like(master);
    update.gradient.copy_(gradient);
  }
  return update.gradient;
}

void ParameterStore::synchronize() {
  const at::NoGradGuard no_grad;
  exchange_.complete();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    held_[i] = parameters_[i].shard == nullptr ? parameters_[i].named.tensor.grad() : at::Tensor();
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    Update& update = updates_[p];
    at::Tensor gradient = gradient_of(p);
    const Parameter& parameter = parameters_[update.parameter];
    if (parameter.has_master) gradient = in_float32(update, gradient, pieces_[p].values);
    if (parameter.has_master || parameter.shard != nullptr) held_[update.parameter] = gradient;
    gradients_[p] = std::move(gradient);
  }
}

bool ParameterStore::has_gradient(const Parameter& parameter) {
  return parameter.shard != nullptr ? parameter.shard->present : parameter.named.tensor.grad().defined();
}

/// Each rank has the chunks of its shares, and gathers the others'. A row's chunks lie in the ranks' parts
/// from `first` on.
void ParameterStore::row_norms(std::span<const PlacedRow* const> rows, double order,
                               std::vector<at::Tensor>& norms) {
  std::int64_t part = 0;
  for (const PlacedRow* row : rows) part += row->row.plan.share / kNormChunk;
  const at::Tensor& share = rows.front()->share;
  const at::ScalarType dtype = has_double_norms(*rows.front()) ? at::kDouble : at::kFloat;
  const at::Tensor chunks = at::zeros({part * group_->size()}, share.options().dtype(dtype));
  const at::Tensor own = chunks.narrow(0, part * group_->rank(), part);
  std::int64_t first = 0;
  for (const PlacedRow* row : rows) {
    const ShardPlan& plan = row->row.plan;
    for (std::size_t k = 0; k < row->row.parameters.size(); ++k) {
      const std::optional<std::size_t> p = parameters_[row->row.parameters[k]].piece;
      if (!p || !gradients_[*p].defined()) continue;
      const at::Tensor piece = chunk_norms(gradients_[*p].reshape({-1}), order);
      const std::int64_t at = plan.offsets[k] + pieces_[*p].range.begin - plan.share * group_->rank();
      own.narrow(0, first + at / kNormChunk, piece.numel()).copy_(piece);
    }
    first += plan.share / kNormChunk;
  }
  group_->all_gather(chunks, own);
  group_->join();
  first = 0;
  for (const PlacedRow* row : rows) {
    const ShardPlan& plan = row->row.plan;
    const std::int64_t chunks_of_share = plan.share / kNormChunk;
    for (std::size_t k = 0; k < row->row.parameters.size(); ++k) {
      const std::size_t i = row->row.parameters[k];
      if (!has_gradient(parameters_[i])) continue;
      const std::int64_t begin = plan.offsets[k] / kNormChunk;
      const std::int64_t end = begin + divide_up(parameters_[i].named.tensor.numel(), kNormChunk);
      std::vector<at::Tensor> of_ranks;
      if (begin == end) of_ranks.push_back(chunks.narrow(0, 0, 0));
      for (std::int64_t at = begin; at < end;) {
        const std::int64_t rank = at / chunks_of_share,
                           size = std::min(end, (rank + 1) * chunks_of_share) - at;
        of_ranks.push_back(chunks.narrow(0, rank * part + first + at % chunks_of_share, size));
        at += size;
      }
      const at::Tensor all = of_ranks.size() == 1 ? of_ranks.front() : at::cat(of_ranks);
      norms[i] = all.numel() > 1 ? at::linalg_vector_norm(all, order) : all.sum();
    }
    first += chunks_of_share;
  }
}

std::vector<at::Tensor> ParameterStore::gradient_norms(double order) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> whole(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].divided) whole[i] = gradients_[*parameters_[i].piece];
  }
  std::vector<at::Tensor> result = norms(whole, order);
  std::vector<const PlacedRow*> left;
  for (const PlacedRow& row : rows_) left.push_back(&row);
  while (!left.empty()) {
    const PlacedRow& first = *left.front();
    const auto others = std::stable_partition(left.begin(), left.end(), [&](const PlacedRow* row) {
      return row->share.device() == first.share.device() && has_double_norms(*row) == has_double_norms(first);
    });
    row_norms({left.begin(), others}, order, result);
    left.erase(left.begin(), others);
  }
  return result;
}

/// Whole gradients are equal on all ranks, and overflow alike.
void ParameterStore::agree_on_overflow(const at::Tensor& found) {
  if (group_ == nullptr) return;
  group_->all_reduce(found, ReduceOp::max);
  group_->join();
}

void ParameterStore::begin_update() {
  if (one_copy_ == nullptr) return;
  const PhaseScope phase(Phase::publish);
  updating_ = true;
  group_->node_memory()->begin_update(*one_copy_);
}

void ParameterStore::publish() {
  const at::NoGradGuard no_grad;
  begin_publish();
  for (const PlacedRow& row : rows_) gather(row);
  end_publish();
}

void ParameterStore::publish_step() {
  const at::NoGradGuard no_grad;
  begin_publish();
  for (const PlacedRow& row : rows_) {
    if (may_have_changed(row)) gather(row);
  }
  end_publish();
}

bool ParameterStore::may_have_changed(const PlacedRow& row) const {
  return std::ranges::any_of(row.row.parameters, [this](std::size_t i) {
    const Parameter& parameter = parameters_[i];
    return parameter.named.tensor.requires_grad() || has_gradient(parameter) || parameter.has_master;
  });
}

void ParameterStore::begin_publish() {
  if (!updating_) begin_update();
  updating_ = false;
  std::ranges::fill(gradients_, at::Tensor());
  std::ranges::fill(held_, at::Tensor());
  for (const Masters& masters : masters_) at::_foreach_copy_(masters.rounded, masters.precise);
  if (one_copy_ != nullptr) group_->node_memory()->end_update(*one_copy_);
}

void ParameterStore::gather(const PlacedRow& row) {
  if (row.memory.defined() && row.one_copy == nullptr) group_->all_gather(row.memory, row.share);
}

void ParameterStore::end_publish() {
  if (!rows_.empty()) group_->join();
  for (const PlacedRow& row : rows_) {
    // Autograd is to know, as of any change in place.
    for (const std::size_t i : row.row.parameters)
      parameters_[i].named.tensor.unsafeGetTensorImpl()->bump_version();
  }
  exchange_.bring_buffers();
}

}  // namespace cxtrain
