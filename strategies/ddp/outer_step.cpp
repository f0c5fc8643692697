#include "outer_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

namespace cxtrain {
namespace {

constexpr const char *kStart = "outer_start.", *kMomentum = "outer_momentum.";

}  // namespace

void OuterStep::begin_at(std::span<const Piece> pieces) {
  const at::NoGradGuard no_grad;
  start_.clear();
  momentum_.clear();
  for (const Piece& piece : pieces) {
    start_.push_back(piece.values.detach().clone());
    momentum_.push_back(at::zeros_like(start_.back()));
  }
}

/// start - lr (gradient + momentum), written as the mean and what differs from it. No product is fused with a
/// sum: nodes with other processors round alike.
void OuterStep::apply(std::span<const Piece> pieces) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    at::Tensor value = pieces[i].values.detach();
    at::Tensor gradient = start_[i].sub_(value);
    momentum_[i].mul_(settings_.momentum).add_(gradient);
    value.add_(gradient.mul_(1 - settings_.lr));
    value.sub_(momentum_[i] * (settings_.lr * settings_.momentum));
    start_[i].copy_(value);
  }
}

std::vector<Piece> OuterStep::state(std::span<const Piece> pieces) const {
  std::vector<Piece> all;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    all.push_back(piece_beside(pieces[i], kStart, start_[i]));
    all.push_back(piece_beside(pieces[i], kMomentum, momentum_[i]));
  }
  return all;
}

void OuterStep::load(std::span<const Piece> pieces, std::span<const Piece> saved) {
  start_.clear();
  momentum_.clear();
  const bool has_start =
      std::ranges::any_of(saved, [](const Piece& piece) { return piece.name.starts_with(kStart); });
  if (!has_start) return;
  begin_at(pieces);
  fill_pieces(state(pieces), saved);
}

}  // namespace cxtrain
