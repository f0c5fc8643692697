#include "cxtrain/strategy/divided_parameters.h"

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
#include "cxtrain/precision/master_weights.h"
#include "cxtrain/tensor/hollow.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

bool shares_memory(const at::Tensor& tensor) {
  return tensor.storage().use_count() > 1 || tensor.storage().nbytes() != tensor.nbytes();
}

/// Norms of float16 and bfloat16 gradients are float32.
bool has_double_norms(const PlacedRow& row) { return row.share.scalar_type() == at::kDouble; }

}  // namespace

std::vector<std::string> DividedParameters::divisible(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    if (!can_be_divided(tensor)) continue;
    if (!is_hollow(tensor) && shares_memory(tensor)) return {};
    names.push_back(name);
  }
  return names;
}

bool DividedParameters::agreed(bool wanted, const std::vector<NamedTensor>& parameters, World& world) {
  std::string names;
  for (const std::string& name : wanted ? divisible(parameters) : std::vector<std::string>{})
    names += name + "\n";
  return same_on_all_ranks(world, names) && !names.empty();
}

DividedParameters::DividedParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                                     Communicator& group, GradientExchange& exchange,
                                     std::vector<PlacedRow> rows)
    : parameters_(std::move(parameters)), group_(group), exchange_(exchange), rows_(std::move(rows)) {
  const at::NoGradGuard no_grad;
  divided_.resize(parameters_.size());
  piece_of_.resize(parameters_.size());
  held_.resize(parameters_.size());
  std::vector<Piece> parts;
  for (const auto& [name, tensor] : parameters_) {
    shards_.push_back(exchange.shard_of(tensor));
    parts.push_back(whole_piece(name, tensor));
  }
  for (const PlacedRow& row : rows_) {
    for (std::size_t k = 0; k < row.row.parameters.size(); ++k) {
      const std::size_t i = row.row.parameters[k];
      divided_[i] = true;
      parts[i] = row.part(k, parameters_[i], group.rank());
    }
    if (row.one_copy != nullptr) one_copies_.push_back(row.one_copy.get());
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!divided_[i] || parts[i].range.size() > 0)
      add_piece(i, std::move(parts[i]), has_master(parameters_[i].tensor, precision));
  }
  gradients_.resize(pieces_.size());
}

void DividedParameters::add_piece(std::size_t parameter, Piece in_model, bool master) {
  piece_of_[parameter] = pieces_.size();
  links_.push_back({parameter, {}});
  if (master) {
    rounded_.push_back(in_model.values.detach());
    in_model.values = in_model.values.detach()
                          .to(at::kFloat)
                          .set_requires_grad(parameters_[parameter].tensor.requires_grad());
    precise_.push_back(in_model.values.detach());
    links_.back().gradient = at::empty_like(precise_.back());
  }
  pieces_.push_back(std::move(in_model));
}

bool DividedParameters::one_copy() const { return !rows_.empty() && one_copies_.size() == rows_.size(); }

at::Tensor DividedParameters::gradient_of(std::size_t p) const {
  const Piece& piece = pieces_[p];
  const std::size_t parameter = links_[p].parameter;
  const GradientShard* const shard = shards_[parameter];
  if (shard != nullptr) return shard->present ? shard->values : at::Tensor();
  const at::Tensor& whole = parameters_[parameter].tensor.grad();
  if (piece.is_whole() || !whole.defined()) return whole;
  if (!whole.is_contiguous()) {  // its part would be a copy, which nobody scales or clips
    throw TrainingError("the gradient of " + piece.name +
                        " is laid out in another order than the parameter; a hook that sets a gradient "
                        "makes it contiguous()");
  }
  return whole.detach().view(-1).slice(0, piece.range.begin, piece.range.end);
}

void DividedParameters::synchronize() {
  const at::NoGradGuard no_grad;
  exchange_.complete();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    held_[i] = shards_[i] == nullptr ? parameters_[i].tensor.grad() : at::Tensor();
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const Link& link = links_[p];
    at::Tensor gradient = gradient_of(p);
    const bool master = link.gradient.defined();
    if (master && gradient.defined()) {
      // The memory is the object's own, and in the strides of the master.
      gradient = at::Tensor(link.gradient).copy_(gradient);
    }
    if (master || shards_[link.parameter] != nullptr) held_[link.parameter] = gradient;
    gradients_[p] = std::move(gradient);
  }
}

bool DividedParameters::has_gradient(std::size_t parameter) const {
  const GradientShard* const shard = shards_[parameter];
  return shard != nullptr ? shard->present : parameters_[parameter].tensor.grad().defined();
}

/// Each rank has the chunks of its shares, and gathers the others'. A row's chunks lie in the ranks' parts
/// from `first` on.
void DividedParameters::row_norms(std::span<const PlacedRow* const> rows, double order,
                                  std::vector<at::Tensor>& norms) {
  std::int64_t part = 0;
  for (const PlacedRow* row : rows) part += row->row.plan.share / kNormChunk;
  const at::Tensor& share = rows.front()->share;
  const at::ScalarType dtype = has_double_norms(*rows.front()) ? at::kDouble : at::kFloat;
  const at::Tensor chunks = at::zeros({part * group_.size()}, share.options().dtype(dtype));
  const at::Tensor own = chunks.narrow(0, part * group_.rank(), part);
  std::int64_t first = 0;
  for (const PlacedRow* row : rows) {
    const ShardPlan& plan = row->row.plan;
    for (std::size_t k = 0; k < row->row.parameters.size(); ++k) {
      const std::optional<std::size_t> p = piece_of_[row->row.parameters[k]];
      if (!p || !gradients_[*p].defined()) continue;
      const at::Tensor piece = chunk_norms(gradients_[*p].reshape({-1}), order);
      const std::int64_t at = plan.offsets[k] + pieces_[*p].range.begin - plan.share * group_.rank();
      own.narrow(0, first + at / kNormChunk, piece.numel()).copy_(piece);
    }
    first += plan.share / kNormChunk;
  }
  group_.all_gather(chunks, own);
  group_.join();
  first = 0;
  for (const PlacedRow* row : rows) {
    const ShardPlan& plan = row->row.plan;
    const std::int64_t chunks_of_share = plan.share / kNormChunk;
    for (std::size_t k = 0; k < row->row.parameters.size(); ++k) {
      const std::size_t i = row->row.parameters[k];
      if (!has_gradient(i)) continue;
      const std::int64_t begin = plan.offsets[k] / kNormChunk;
      const std::int64_t end = begin + divide_up(parameters_[i].tensor.numel(), kNormChunk);
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

std::vector<at::Tensor> DividedParameters::gradient_norms(double order) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> result(parameters_.size());
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const std::size_t parameter = links_[p].parameter;
    if (!divided_[parameter]) result[parameter] = norms({&gradients_[p], 1}, order)[0];
  }
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

void DividedParameters::agree_on_overflow(const at::Tensor& found) {
  group_.all_reduce(found, ReduceOp::max);
  group_.join();
}

void DividedParameters::begin_update() {
  const PhaseScope phase(Phase::publish);
  updating_ = true;
  if (!one_copies_.empty()) group_.node_memory()->begin_update(one_copies_);
}

void DividedParameters::publish() {
  const at::NoGradGuard no_grad;
  if (!updating_) begin_update();
  updating_ = false;
  std::fill(gradients_.begin(), gradients_.end(), at::Tensor());
  std::fill(held_.begin(), held_.end(), at::Tensor());
  if (!rounded_.empty()) at::_foreach_copy_(rounded_, precise_);
  if (!one_copies_.empty()) group_.node_memory()->end_update(one_copies_);
  for (const PlacedRow& row : rows_) {
    if (row.memory.defined() && row.one_copy == nullptr) group_.all_gather(row.memory, row.share);
  }
  group_.join();
  for (const PlacedRow& row : rows_) {
    // Autograd is to know, as of any change in place.
    for (const std::size_t i : row.row.parameters)
      parameters_[i].tensor.unsafeGetTensorImpl()->bump_version();
  }
  exchange_.bring_buffers();
}

}  // namespace cxtrain
