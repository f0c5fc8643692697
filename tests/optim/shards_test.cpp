#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>

#include "cxtrain/optim/optimizer.h"
#include "cxtrain/tensor/piece.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes{{3}, {170, 50}, {20, 3, 5, 5}, {64}, {129}};

std::vector<NamedTensor> parameters(at::ScalarType dtype) {
  at::manual_seed(7);
  std::vector<NamedTensor> made;
  for (const auto& shape : kShapes) {
    at::Tensor tensor = at::rand(shape).to(dtype);
    made.push_back({"p" + std::to_string(made.size()), tensor.requires_grad_()});
  }
  return made;
}

/// Gradients of `step`, none for the first parameter every fifth time; those of the one with four dimensions
/// lie otherwise than the parameter every third.
void set_gradients(const std::vector<NamedTensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    at::Tensor gradient = at::rand(tensor.sizes()).sub(0.3).to(tensor.scalar_type());
    if (tensor.dim() == 4 && step % 3 == 0) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    tensor.mutable_grad() = i == 0 && step % 5 == 3 ? at::Tensor() : gradient;
  }
}

/// Cuts all of them as flat memory is cut.
ShardPlan plan_for(const std::vector<NamedTensor>& parameters, int ranks) {
  std::vector<std::int64_t> sizes;
  for (const auto& [name, tensor] : parameters) sizes.push_back(tensor.numel());
  return plan_shards(sizes, ranks);
}

/// What a rank has of the parameters.
std::vector<Piece> pieces_of(const std::vector<NamedTensor>& parameters,
                             std::span<const ElementRange> shards) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (shards[i].size() > 0) pieces.push_back(part_of(parameters[i].name, parameters[i].tensor, shards[i]));
  }
  return pieces;
}

/// The gradients of some pieces.
std::vector<at::Tensor> gradients_of(const std::vector<Piece>& pieces,
                                     const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const Piece& piece : pieces) {
    for (const auto& [name, tensor] : parameters) {
      if (name != piece.name) continue;
      const at::Tensor& gradient = tensor.grad();
      gradients.push_back(piece.is_whole() || !gradient.defined()
                              ? gradient
                              : gradient.contiguous().view(-1).slice(0, piece.range.begin, piece.range.end));
    }
  }
  return gradients;
}

TEST_CASE("shards that several optimizers update are, bit for bit, what one makes of the whole") {
  OptimizerConfig config =
      GENERATE(OptimizerConfig(Sgd{.lr = 0.05}),
               OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}),
               OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true}),
               OptimizerConfig(Adam{.lr = 0.01, .weight_decay = 0.1}),
               OptimizerConfig(AdamW{.lr = 0.01, .amsgrad = true}));
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const int ranks = GENERATE(2, 3, 5);
  // Refused for 16-bit parameters.
  if (Sgd* sgd = std::get_if<Sgd>(&config); sgd != nullptr && dtype == at::kBFloat16) sgd->dampening = 0;
  CAPTURE(config.index(), c10::toString(dtype), ranks);

  const auto whole = parameters(dtype), divided = parameters(dtype);
  OptimizerSetup setup{.optimizer = config}, divided_setup{.optimizer = config};
  setup.groups = {{.parameters = {whole[1].tensor}, .lr = 0.003}};
  divided_setup.groups = {{.parameters = {divided[1].tensor}, .lr = 0.003}};
  const auto reference = make_optimizer(setup, whole);
  const ShardPlan plan = plan_for(divided, ranks);
  std::vector<std::vector<Piece>> pieces;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const auto& shards : plan.shards) {
    pieces.push_back(pieces_of(divided, shards));
    optimizers.push_back(make_optimizer(divided_setup, divided, pieces.back()));
    CHECK(optimizers.back()->learning_rates() == reference->learning_rates());
  }

  for (int step = 0; step < 7; ++step) {
    const at::Tensor found_inf = at::full({1}, step == 2 ? 1.0f : 0.0f);
    set_gradients(whole, step);
    const auto gradients = gradients_of(whole_pieces(whole), whole);
    reference->step({.gradients = gradients, .found_inf = &found_inf});
    set_gradients(divided, step);
    for (std::size_t rank = 0; rank < optimizers.size(); ++rank) {
      const auto own = gradients_of(pieces[rank], divided);
      optimizers[rank]->step({.gradients = own, .found_inf = &found_inf});
    }
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    CHECK(at::equal(whole[i].tensor, divided[i].tensor));
  }
}

TEST_CASE("an optimizer remembers only what it updates") {
  const auto divided = parameters(at::kFloat);
  const ShardPlan plan = plan_for(divided, 4);
  std::int64_t elements = 0, whole = 0;
  for (const auto& shards : plan.shards) {
    for (const Piece& piece :
         make_optimizer({.optimizer = Adam{}}, divided, pieces_of(divided, shards))->state()) {
      if (piece.name.starts_with("exp_avg.")) elements += piece.values.numel();
    }
  }
  for (const auto& [name, tensor] : divided) whole += tensor.numel();
  CHECK(elements == whole);
}

TEST_CASE("a state that ranks have in pieces is one that others can go on from, in other pieces or whole") {
  const int from = GENERATE(1, 2, 5), to = GENERATE(1, 3);
  const auto model = parameters(at::kFloat), expected = parameters(at::kFloat);
  const auto optimizers_of = [&](const std::vector<NamedTensor>& all, int ranks, auto& pieces) {
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    for (const auto& shards : plan_for(all, ranks).shards) {
      pieces.push_back(pieces_of(all, shards));
      optimizers.push_back(make_optimizer({.optimizer = AdamW{.lr = 0.01}}, all, pieces.back()));
    }
    return optimizers;
  };
  const auto step = [](auto& optimizers, const auto& pieces, const std::vector<NamedTensor>& all,
                       int number) {
    set_gradients(all, number);
    for (std::size_t rank = 0; rank < optimizers.size(); ++rank) {
      const auto own = gradients_of(pieces[rank], all);
      optimizers[rank]->step({.gradients = own});
    }
  };
  std::vector<std::vector<Piece>> all_pieces, first_pieces, second_pieces;
  auto reference = optimizers_of(expected, 1, all_pieces);
  for (int number = 0; number < 6; ++number) step(reference, all_pieces, expected, number);

  auto first = optimizers_of(model, from, first_pieces);
  for (int number = 0; number < 3; ++number) step(first, first_pieces, model, number);
  std::vector<Piece> saved;
  for (const auto& optimizer : first)
    for (Piece& piece : optimizer->state()) saved.push_back(std::move(piece));
  auto second = optimizers_of(model, to, second_pieces);
  for (const auto& optimizer : second) optimizer->load(saved);
  for (int number = 3; number < 6; ++number) step(second, second_pieces, model, number);
  for (std::size_t i = 0; i < model.size(); ++i) CHECK(at::equal(model[i].tensor, expected[i].tensor));
}

TEST_CASE("LibTorch's own optimizers refuse parts of parameters") {
  const auto divided = parameters(at::kFloat);
  const ShardPlan plan = plan_for(divided, 2);
  CHECK_THAT(test::error_of([&] {
               make_optimizer({.optimizer = Rmsprop{}}, divided, pieces_of(divided, plan.shards[0]));
             }),
             test::contains(test::code(MessageCode::invalid_value)) && test::contains("rmsprop") &&
                 test::contains("p1"));
}

}  // namespace
}  // namespace cxtrain
