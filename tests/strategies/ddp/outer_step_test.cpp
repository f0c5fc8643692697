#include "strategies/ddp/outer_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <torch/optim/sgd.h>

#include "cxtrain/state/stateful.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr OuterStep::Settings kDiloco{.lr = 0.7, .momentum = 0.9};

/// A whole parameter, and a part of another one.
std::vector<Piece> trained_pieces() {
  return {whole_piece("whole", at::randn({7, 5}, at::kDouble)),
          part_of("part", at::randn({100}, at::kDouble), {20, 60})};
}

/// Each node trains, and the pieces get the mean.
void train(const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) piece.values.detach().add_(at::randn_like(piece.values), 0.1);
}

TEST_CASE("an outer step is SGD with Nesterov's momentum on the way back from the mean", "[outer_step]") {
  at::manual_seed(1);
  const std::vector<Piece> pieces = trained_pieces();
  std::vector<at::Tensor> expected;
  for (const Piece& piece : pieces) expected.push_back(piece.values.clone().set_requires_grad(true));
  torch::optim::SGD sgd(expected,
                        torch::optim::SGDOptions(kDiloco.lr).momentum(kDiloco.momentum).nesterov(true));
  OuterStep outer(kDiloco);
  outer.begin_at(pieces);
  for (int step = 0; step < 4; ++step) {
    train(pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i)
      expected[i].mutable_grad() = expected[i].detach() - pieces[i].values;
    sgd.step();
    outer.apply(pieces);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      CAPTURE(step, pieces[i].name);
      CHECK(at::allclose(pieces[i].values, expected[i].detach(), 0, 1e-12));
    }
  }
}

TEST_CASE("an outer step of rate 1 without momentum takes the mean to the last bit", "[outer_step]") {
  at::manual_seed(2);
  const std::vector<Piece> pieces = trained_pieces();
  OuterStep outer({.lr = 1, .momentum = 0});
  outer.begin_at(pieces);
  train(pieces);
  const at::Tensor mean = pieces.front().values.clone();
  outer.apply(pieces);
  CHECK(pieces.front().values.equal(mean));
}

TEST_CASE("a loaded outer step goes on to the last bit, and has no start in a state without it",
          "[outer_step]") {
  at::manual_seed(3);
  const std::vector<Piece> pieces = trained_pieces();
  OuterStep outer(kDiloco);
  CHECK(outer.state(pieces).empty());
  outer.begin_at(pieces);
  train(pieces);
  outer.apply(pieces);
  train(pieces);
  StateDict saved;
  saved.add(outer.state(pieces));
  const StateDict state = saved.clone();
  const std::vector<Piece> copies{whole_piece("whole", pieces[0].values.clone()),
                                  Piece{"part", pieces[1].values.clone(), {100}, {20, 60}}};
  outer.apply(pieces);

  OuterStep loaded(kDiloco);
  loaded.load(copies, state.pieces());
  CHECK(loaded.has_start());
  loaded.apply(copies);
  for (std::size_t i = 0; i < pieces.size(); ++i) CHECK(copies[i].values.equal(pieces[i].values));

  loaded.load(copies, {});
  CHECK_FALSE(loaded.has_start());
}

}  // namespace
}  // namespace cxtrain
