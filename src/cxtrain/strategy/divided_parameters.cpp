#include "cxtrain/strategy/divided_parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

bool shares_memory(const at::Tensor& tensor) {
  return tensor.storage().use_count() > 1 || tensor.storage().nbytes() != tensor.nbytes();
}

bool can_be_divided(const at::Tensor& tensor) { return tensor.requires_grad() && tensor.is_contiguous(); }

/// The elements from `first` on, in the tensor's shape, with a storage of their own that keeps `memory`
/// alive.
at::Tensor place_in(const at::Tensor& memory, std::int64_t first, const at::Tensor& tensor) {
  auto* const begin = static_cast<std::byte*>(memory.mutable_data_ptr()) +
                      static_cast<std::size_t>(first) * memory.itemsize();
  return at::from_blob(
      begin, tensor.sizes(), [memory](void*) {}, tensor.options().requires_grad(false));
}

/// An array of which the ranks of the group have one copy; null if they cannot.
std::shared_ptr<NodeArena> one_copy_of(Communicator& group, const at::Tensor& first, std::int64_t share) {
  NodeMemory* const node = first.is_cpu() ? group.node_memory() : nullptr;
  if (node == nullptr) return nullptr;
  return node->arena(static_cast<std::size_t>(share) * first.itemsize());
}

at::Tensor tensor_at(std::byte* data, std::int64_t numel, const at::Tensor& like,
                     const std::shared_ptr<NodeArena>& arena) {
  return at::from_blob(
      data, {numel}, [arena](void*) {}, like.options().requires_grad(false));
}

}  // namespace

std::vector<std::string> DividedParameters::divisible(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    if (!can_be_divided(tensor)) continue;
    if (shares_memory(tensor)) return {};
    names.push_back(name);
  }
  return names;
}

DividedParameters::DividedParameters(std::vector<NamedTensor> parameters, const PrecisionPolicy& precision,
                                     Communicator& group, GradientExchange& exchange)
    : masters_(std::move(parameters), precision), group_(group), exchange_(exchange) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor>& masters = masters_.parameters();
  std::vector<std::vector<std::size_t>> lists;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const at::Tensor& tensor = masters[i].tensor;
    own_ranges_.push_back({0, tensor.numel()});
    divided_.push_back(can_be_divided(tensor));
    if (!divided_.back()) continue;
    const auto same = std::find_if(lists.begin(), lists.end(), [&](const auto& list) {
      const at::Tensor& other = masters[list[0]].tensor;
      return other.scalar_type() == tensor.scalar_type() && other.device() == tensor.device();
    });
    if (same == lists.end()) {
      lists.push_back({i});
    } else {
      same->push_back(i);
    }
  }
  for (std::vector<std::size_t>& list : lists) arenas_.push_back(divide(std::move(list)));
  add_pieces();
  for (const Arena& arena : arenas_) {  // every rank has filled its share before anyone reads
    if (arena.one_copy != nullptr) group_.node_memory()->end_update(*arena.one_copy);
  }
}

DividedParameters::Arena DividedParameters::divide(std::vector<std::size_t> parameters) {
  const std::vector<NamedTensor>& masters = masters_.parameters();
  Arena arena{.parameters = std::move(parameters), .plan = {}, .memory = {}, .share = {}, .one_copy = {}};
  std::vector<std::int64_t> sizes;
  for (const std::size_t i : arena.parameters) sizes.push_back(masters[i].tensor.numel());
  const at::Tensor& first = masters[arena.parameters[0]].tensor;
  const auto page = static_cast<std::int64_t>(NodeArena::page_bytes() / first.itemsize());
  arena.plan = plan_shards(sizes, group_.size(), page);
  const std::int64_t share = arena.plan.share, whole = share * group_.size(), begin = share * group_.rank();
  arena.one_copy = one_copy_of(group_, first, share);
  if (arena.one_copy != nullptr) {
    arena.memory = tensor_at(arena.one_copy->whole(), whole, first, arena.one_copy);
    arena.share = tensor_at(arena.one_copy->own(), share, first, arena.one_copy);
  } else {
    arena.memory = group_.allocate(whole, first.scalar_type(), first.device());
    arena.memory.zero_();  // what lies between the parameters travels with them
    arena.share = arena.memory.narrow(0, begin, share);
  }
  for (std::size_t k = 0; k < arena.parameters.size(); ++k) {
    const std::size_t i = arena.parameters[k];
    own_ranges_[i] = arena.plan.shards[static_cast<std::size_t>(group_.rank())][k];
    const at::Tensor place = place_in(arena.memory, arena.plan.offsets[k], masters[i].tensor);
    if (arena.one_copy == nullptr) {
      place.copy_(masters[i].tensor.detach());
    } else if (own_ranges_[i].size() > 0) {
      const Piece own = part_of(masters[i].name, masters[i].tensor.detach(), own_ranges_[i]);
      part_of_share(arena, k).values.copy_(own.values);
    }
    at::Tensor(masters[i].tensor).set_data(place);
  }
  return arena;
}

Piece DividedParameters::part_of_share(const Arena& arena, std::size_t k) const {
  const std::size_t i = arena.parameters[k];
  const auto& [name, tensor] = masters_.parameters()[i];
  Piece piece = part_of(name, tensor, own_ranges_[i]);
  if (arena.one_copy == nullptr || piece.range.size() == 0) return piece;
  const std::int64_t first = arena.plan.offsets[k] + piece.range.begin - arena.plan.share * group_.rank();
  piece.values = place_in(arena.share, first, piece.values).set_requires_grad(tensor.requires_grad());
  return piece;
}

void DividedParameters::add_pieces() {
  const std::vector<NamedTensor>& masters = masters_.parameters();
  piece_of_.resize(masters.size());
  std::vector<Piece> all(masters.size());
  for (std::size_t i = 0; i < masters.size(); ++i)
    all[i] = divided_[i] ? Piece{} : part_of(masters[i].name, masters[i].tensor, own_ranges_[i]);
  for (const Arena& arena : arenas_) {
    for (std::size_t k = 0; k < arena.parameters.size(); ++k)
      all[arena.parameters[k]] = part_of_share(arena, k);
  }
  for (std::size_t i = 0; i < masters.size(); ++i) {
    if (divided_[i] && own_ranges_[i].size() == 0) continue;
    piece_of_[i] = pieces_.size();
    pieces_.push_back(std::move(all[i]));
    master_of_.push_back(i);
  }
  gradients_.resize(pieces_.size());
}

bool DividedParameters::one_copy() const {
  return std::any_of(arenas_.begin(), arenas_.end(),
                     [](const Arena& arena) { return arena.one_copy != nullptr; });
}

void DividedParameters::synchronize() {
  const at::NoGradGuard no_grad;
  exchange_.complete();
  masters_.take_gradients();
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    const at::Tensor& whole = masters_.gradients()[master_of_[p]];
    if (pieces_[p].is_whole() || !whole.defined()) {
      gradients_[p] = whole;
      continue;
    }
    if (!whole.is_contiguous()) {  // its part would be a copy, which nobody scales or clips
      throw TrainingError("the gradient of " + pieces_[p].name +
                          " is laid out in another order than the parameter; a hook that sets a gradient "
                          "makes it contiguous()");
    }
    const ElementRange range = pieces_[p].range;
    gradients_[p] = whole.detach().view(-1).slice(0, range.begin, range.end);
  }
}

/// Chunk by chunk of the memory: each rank has those of its share, and gathers the others'.
void DividedParameters::arena_norms(const Arena& arena, double order, std::vector<at::Tensor>& norms) {
  const at::ScalarType dtype = arena.memory.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t share = arena.plan.share / kNormChunk;
  const at::Tensor chunks = at::zeros({share * group_.size()}, arena.memory.options().dtype(dtype));
  for (std::size_t k = 0; k < arena.parameters.size(); ++k) {
    const std::size_t i = arena.parameters[k];
    if (!piece_of_[i] || !gradients_[*piece_of_[i]].defined()) continue;
    const at::Tensor own = chunk_norms(gradients_[*piece_of_[i]].reshape({-1}), order);
    chunks.narrow(0, (arena.plan.offsets[k] + own_ranges_[i].begin) / kNormChunk, own.numel()).copy_(own);
  }
  group_.all_gather(chunks, chunks.narrow(0, share * group_.rank(), share));
  group_.join();
  for (std::size_t k = 0; k < arena.parameters.size(); ++k) {
    const std::size_t i = arena.parameters[k];
    if (!masters_.gradients()[i].defined()) continue;
    const std::int64_t count = divide_up(masters_.parameters()[i].tensor.numel(), kNormChunk);
    const at::Tensor own = chunks.narrow(0, arena.plan.offsets[k] / kNormChunk, count);
    norms[i] = own.numel() > 1 ? at::linalg_vector_norm(own, order) : own.sum();
  }
}

std::vector<at::Tensor> DividedParameters::gradient_norms(double order) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> result(masters_.parameters().size());
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    if (!divided_[master_of_[p]]) result[master_of_[p]] = norms({&gradients_[p], 1}, order)[0];
  }
  for (const Arena& arena : arenas_) arena_norms(arena, order, result);
  return result;
}

void DividedParameters::agree_on_overflow(const at::Tensor& found) {
  group_.all_reduce(found, ReduceOp::max);
  group_.join();
}

void DividedParameters::begin_update() {
  const PhaseScope phase(Phase::publish);
  updating_ = true;
  for (const Arena& arena : arenas_) {
    if (arena.one_copy != nullptr) group_.node_memory()->begin_update(*arena.one_copy);
  }
}

void DividedParameters::publish() {
  const at::NoGradGuard no_grad;
  if (!updating_) begin_update();
  updating_ = false;
  masters_.forget_gradients();
  std::fill(gradients_.begin(), gradients_.end(), at::Tensor());
  for (const Arena& arena : arenas_) {
    if (arena.one_copy != nullptr) {
      group_.node_memory()->end_update(*arena.one_copy);
    } else {
      group_.all_gather(arena.memory, arena.share);
      group_.join();
    }
    // Autograd is to know, as of any change in place.
    for (const std::size_t i : arena.parameters)
      masters_.parameters()[i].tensor.unsafeGetTensorImpl()->bump_version();
  }
  masters_.write_back();
  exchange_.bring_buffers();
}

}  // namespace cxtrain
