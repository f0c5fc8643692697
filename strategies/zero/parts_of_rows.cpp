#include "parts_of_rows.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cxtrain/reduce/divided_rows.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

const Piece* find_piece(const std::vector<Piece>& kept, const std::string& name) {
  const auto found = std::ranges::find(kept, name, &Piece::name);
  return found == kept.end() ? nullptr : &*found;
}

bool is_here(const Part& part, const std::vector<Piece>& kept) {
  if (part.range.size() == 0 || !is_hollow(part.parameter.tensor)) return true;
  const Piece* const piece = find_piece(kept, part.parameter.name);
  return piece != nullptr && piece->range.begin <= part.range.begin && part.range.end <= piece->range.end;
}

/// Returns all elements of a parameter. The ranks of the group have parts of the parameter. Collective.
at::Tensor joined_parts(const NamedTensor& parameter, const std::vector<Piece>& kept, Communicator& group) {
  const auto& [name, tensor] = parameter;
  const at::Tensor whole = at::zeros({tensor.numel()}, tensor.options().requires_grad(false));
  if (!is_hollow(tensor)) {
    whole.copy_(tensor.reshape({-1}));
  } else if (const Piece* const piece = find_piece(kept, name)) {
    whole.narrow(0, piece->range.begin, piece->range.size()).copy_(piece->values.reshape({-1}));
  }
  // For each byte, a rank has either the value or zero, and at least one rank has the value.
  group.all_reduce(whole.view(at::kByte), ReduceOp::max);
  group.join();
  return whole;
}

}  // namespace

std::vector<Part> parts_of_rank(const std::vector<NamedTensor>& parameters, int ranks, int rank,
                                std::int64_t row_bytes) {
  std::vector<Part> parts;
  for (const DividedRow& row : divided_rows(parameters, ranks, row_bytes)) {
    const std::vector<ElementRange>& own = row.plan.shards[static_cast<std::size_t>(rank)];
    for (std::size_t k = 0; k < row.parameters.size(); ++k)
      parts.push_back({parameters[row.parameters[k]], own[k]});
  }
  return parts;
}

std::vector<Piece> parts_of_rows(const std::vector<NamedTensor>& parameters, std::vector<Piece> kept,
                                 Communicator& group, World& world, std::int64_t row_bytes) {
  const at::NoGradGuard no_grad;
  const std::vector<Part> parts = parts_of_rank(parameters, group.size(), group.rank(), row_bytes);
  const bool complete = std::ranges::all_of(parts, [&](const Part& part) { return is_here(part, kept); });
  if (!world.any_rank(!complete)) return kept;
  std::vector<Piece> result;
  for (const auto& [parameter, range] : parts) {
    const at::Tensor whole = joined_parts(parameter, kept, group);
    if (!is_hollow(parameter.tensor)) continue;
    Piece part = part_of(parameter.name, whole.view(parameter.tensor.sizes()), range);
    part.values = part.values.clone();
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace cxtrain
