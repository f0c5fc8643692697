#include "cxtrain/strategy/placed_row.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "cxtrain/base/text.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

/// Elements of `memory` from `first` on, in these sizes, with a storage of their own that keeps `memory`
/// alive.
at::Tensor place_in(const at::Tensor& memory, std::int64_t first, at::IntArrayRef sizes) {
  auto* const begin = static_cast<std::byte*>(memory.mutable_data_ptr()) +
                      static_cast<std::ptrdiff_t>(first) * static_cast<std::ptrdiff_t>(memory.itemsize());
  return at::from_blob(
      begin, sizes, [memory](void*) {}, memory.options());
}

at::Tensor tensor_at(std::byte* data, std::int64_t numel, const at::Tensor& like,
                     const std::shared_ptr<NodeArena>& arena) {
  return at::from_blob(
      data, {numel}, [arena](void*) {}, like.options().requires_grad(false));
}

/// `number`: of the row in `one_copy`, which may be null.
PlacedRow place_row(DividedRow planned, const std::shared_ptr<NodeArena>& one_copy, std::size_t number,
                    const std::vector<NamedTensor>& parameters, Communicator& group,
                    std::span<const Piece> kept) {
  PlacedRow placed{.row = std::move(planned), .share = {}, .one_copy = one_copy};
  const DividedRow& row = placed.row;
  const at::Tensor& first = parameters[row.parameters[0]].tensor;
  const std::int64_t share = row.plan.share;
  if (one_copy != nullptr) {
    placed.memory = tensor_at(one_copy->whole(number), row.elements(), first, one_copy);
    placed.share = tensor_at(one_copy->own(number), share, first, one_copy);
  } else {
    placed.memory = group.allocate(row.elements(), first.scalar_type(), first.device());
    placed.memory.zero_();  // messages have the gaps between parameters, too
    placed.share = placed.memory.narrow(0, share * group.rank(), share);
  }
  for (std::size_t k = 0; k < row.parameters.size(); ++k) {
    const auto& [name, tensor] = parameters[row.parameters[k]];
    const at::Tensor place = place_in(placed.memory, row.plan.offsets[k], tensor.sizes());
    const Piece part =
        one_copy == nullptr ? whole_piece(name, place) : placed.part(k, {name, tensor}, group.rank());
    fill_part(part, {name, tensor}, kept);
    at::Tensor(tensor).set_data(place);
  }
  return placed;
}

bool shares_memory(const at::Tensor& tensor) {
  return tensor.storage().use_count() > 1 || tensor.storage().nbytes() != tensor.nbytes();
}

}  // namespace

std::vector<std::string> divisible(const std::vector<NamedTensor>& parameters) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    if (!can_be_divided(tensor)) continue;
    if (!is_hollow(tensor) && shares_memory(tensor)) return {};
    names.push_back(name);
  }
  return names;
}

std::shared_ptr<NodeArena> one_copy_of(const std::vector<DividedRow>& rows,
                                       const std::vector<NamedTensor>& parameters, Communicator& group) {
  if (rows.empty() || group.node_memory() == nullptr) return nullptr;
  std::vector<std::size_t> share_bytes;
  for (const DividedRow& row : rows) {
    const at::Tensor& first = parameters[row.parameters[0]].tensor;
    if (!first.is_cpu()) return nullptr;
    share_bytes.push_back(static_cast<std::size_t>(row.plan.share) * first.itemsize());
  }
  return group.node_memory()->arena(share_bytes);
}

bool agree_to_divide(bool wanted, const std::vector<NamedTensor>& parameters, World& world) {
  const std::string names = wanted ? joined(divisible(parameters), "\n") : "";
  return same_on_all_ranks(world, names) && !names.empty();
}

Piece PlacedRow::part(std::size_t k, const NamedTensor& parameter, int rank) const {
  const auto& [name, tensor] = parameter;
  const ElementRange range = row.plan.shards[static_cast<std::size_t>(rank)][k];
  if (memory.defined() && one_copy == nullptr) return part_of(name, tensor, range);
  const bool whole = range.size() == tensor.numel();
  const std::int64_t first = row.plan.offsets[k] + range.begin - row.plan.share * rank;
  const std::vector<std::int64_t> sizes =
      whole ? tensor.sizes().vec() : std::vector<std::int64_t>{range.size()};
  return {name,
          place_in(share, range.size() > 0 ? first : 0, sizes).set_requires_grad(tensor.requires_grad()),
          tensor.sizes().vec(), range};
}

void fill_part(const Piece& part, const NamedTensor& parameter, std::span<const Piece> kept) {
  if (part.range.size() == 0) return;
  if (!is_hollow(parameter.tensor)) {
    const Piece whole = whole_piece(parameter.name, parameter.tensor.detach());
    return fill_pieces({&part, 1}, {&whole, 1});
  }
  const auto own = std::ranges::find(kept, parameter.name, &Piece::name);
  fill_pieces({&part, 1}, own == kept.end() ? std::span<const Piece>() : std::span(&*own, 1));
}

std::vector<PlacedRow> place_rows(const std::vector<NamedTensor>& parameters, Communicator& group,
                                  std::int64_t row_bytes, std::span<const Piece> kept) {
  const at::NoGradGuard no_grad;
  std::vector<DividedRow> planned = divided_rows(parameters, group.size(), row_bytes);
  const std::shared_ptr<NodeArena> one_copy = one_copy_of(planned, parameters, group);
  std::vector<PlacedRow> rows;
  for (DividedRow& row : planned)
    rows.push_back(place_row(std::move(row), one_copy, rows.size(), parameters, group, kept));
  if (one_copy != nullptr) {
    group.node_memory()->end_update(*one_copy);  // every rank has filled its shares before anyone reads
    one_copy->use_huge_pages();
  }
  return rows;
}

}  // namespace cxtrain
