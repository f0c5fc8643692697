#include "cxtrain/tensor/piece.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>
#include <c10/util/StringUtil.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/tensor/norms.h"

namespace cxtrain {
namespace {

std::vector<std::int64_t> shape_list(const at::Tensor& tensor) { return tensor.sizes().vec(); }

void require_same_whole(const Piece& source, const Piece& target) {
  if (source.shape == target.shape) return;
  throw StateError(c10::str(target.name, " has the shape ", at::IntArrayRef(target.shape),
                            ", and in the saved state ", at::IntArrayRef(source.shape)));
}

/// Elements `range` of the whole, flat; `values`: of the piece, contiguous.
at::Tensor flat_part(const Piece& piece, const at::Tensor& values, ElementRange range) {
  return values.reshape({-1}).slice(0, range.begin - piece.range.begin, range.end - piece.range.begin);
}

/// `into`: elements `range`, flat.
void copy_range(const Piece& source, ElementRange range, const at::Tensor& into) {
  if (source.stored == nullptr) {
    at::Tensor(into).copy_(flat_part(source, source.values, range));
    return;
  }
  const std::int64_t most = (std::int64_t{4} << 20) / static_cast<std::int64_t>(into.element_size());
  for (std::int64_t begin = range.begin; begin < range.end; begin += most) {
    const ElementRange part{begin, std::min(begin + most, range.end)};
    into.slice(0, begin - range.begin, part.end - range.begin).copy_(source.stored->read(part));
  }
}

/// The elements that both hold.
void copy_overlap(const Piece& source, const Piece& target) {
  if (source.stored == nullptr && source.is_whole() && target.is_whole()) {
    at::Tensor(target.values).copy_(source.values);
    return;
  }
  const ElementRange both{std::max(source.range.begin, target.range.begin),
                          std::min(source.range.end, target.range.end)};
  if (target.values.is_contiguous()) {
    copy_range(source, both, flat_part(target, target.values, both));
    return;
  }
  const at::Tensor rows = target.values.contiguous();
  copy_range(source, both, flat_part(target, rows, both));
  at::Tensor(target.values).copy_(rows);
}

}  // namespace

std::string describe(const NamedTensor& named) {
  return c10::str(named.name, ": ", c10::toString(named.tensor.scalar_type()), " ", named.tensor.sizes());
}

std::optional<Difference> first_difference(std::span<const std::string> first,
                                           std::span<const std::string> second, const std::string& ended) {
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const std::string& one = i < first.size() ? first[i] : ended;
    const std::string& other = i < second.size() ? second[i] : ended;
    if (one != other) return Difference{i, one, other};
  }
  return std::nullopt;
}

bool Piece::is_whole() const { return range == ElementRange{0, c10::multiply_integers(shape)}; }

at::Tensor Piece::read() const {
  if (stored == nullptr) return values;
  const at::Tensor flat = stored->read(range);
  return is_whole() ? flat.view(shape) : flat;
}

Piece whole_piece(std::string name, at::Tensor tensor) {
  const std::int64_t elements = tensor.numel();
  std::vector<std::int64_t> shape = shape_list(tensor);
  return {std::move(name), std::move(tensor), std::move(shape), {0, elements}};
}

std::vector<Piece> whole_pieces(const std::vector<NamedTensor>& tensors) {
  return transformed(tensors, [](const NamedTensor& each) { return whole_piece(each.name, each.tensor); });
}

std::vector<at::Tensor> values_of(std::span<const Piece> pieces) {
  return transformed(pieces, [](const Piece& piece) { return piece.values.detach(); });
}

Piece part_of(const std::string& name, const at::Tensor& tensor, ElementRange range) {
  if (range.size() == tensor.numel()) return whole_piece(name, tensor);
  const at::Tensor part = tensor.detach().view(-1).slice(0, range.begin, range.end);
  return {name, part.set_requires_grad(tensor.requires_grad()), shape_list(tensor), range};
}

Piece piece_beside(const Piece& piece, const std::string& prefix, const at::Tensor& values) {
  return {prefix + piece.name, values, piece.shape, piece.range};
}

void fill_pieces(std::span<const Piece> targets, std::span<const Piece> sources) {
  const at::NoGradGuard no_grad;
  std::multimap<std::string_view, const Piece*> by_name;
  for (const Piece& source : sources) by_name.emplace(source.name, &source);
  for (const Piece& target : targets) {
    std::vector<const Piece*> found;
    for (auto [it, end] = by_name.equal_range(target.name); it != end; ++it) found.push_back(it->second);
    std::ranges::sort(found, [](const Piece* a, const Piece* b) { return a->range.begin < b->range.begin; });
    std::int64_t covered = target.range.begin;
    for (const Piece* source : found) {
      require_same_whole(*source, target);
      if (source->range.begin > covered || covered >= target.range.end) break;
      if (source->range.end <= covered) continue;
      copy_overlap(*source, target);
      covered = std::max(covered, source->range.end);
    }
    if (found.empty() || covered < target.range.end)
      throw StateError("the saved state lacks " + target.name + (found.empty() ? "" : " in part"));
  }
}

ShardPlan plan_shards(std::span<const std::int64_t> sizes, int ranks, std::int64_t multiple) {
  ShardPlan plan;
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    plan.offsets.push_back(total);
    total += round_up(size, kNormChunk);
  }
  plan.share = round_up(divide_up<std::int64_t>(total, ranks), std::max(multiple, kNormChunk));
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t begin = rank * plan.share, end = begin + plan.share;
    std::vector<ElementRange>& shard = plan.shards.emplace_back();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto within = [&](std::int64_t element) {
        return std::clamp<std::int64_t>(element - plan.offsets[i], 0, sizes[i]);
      };
      shard.push_back({within(begin), within(end)});
    }
  }
  return plan;
}

}  // namespace cxtrain
