#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>

#include "cxtrain/optim/optimizer.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

const std::vector<std::vector<std::int64_t>> kShapes{{3}, {170, 50}, {20, 3, 5, 5}, {64}, {129}};

std::vector<NamedTensor> parameters(at::ScalarType dtype) {
  at::manual_seed(7);
  std::vector<NamedTensor> made;
  for (const auto& shape : kShapes) {
    at::Tensor tensor = at::rand(shape).to(dtype);
    if (shape.size() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
    made.push_back({"p" + std::to_string(made.size()), tensor.requires_grad_()});
  }
  return made;
}

/// Gradients of `step`, none for the first parameter every fifth time; those of the channels-last one lie
/// otherwise than the parameter every third.
void set_gradients(const std::vector<NamedTensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    at::Tensor gradient = at::rand(tensor.sizes()).sub(0.3).to(tensor.scalar_type());
    if (tensor.dim() == 4 && step % 3 != 0) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    tensor.mutable_grad() = i == 0 && step % 5 == 3 ? at::Tensor() : gradient;
  }
}

TEST_CASE("shards that several optimizers update are, bit for bit, what one makes of the whole") {
  const OptimizerConfig config =
      GENERATE(OptimizerConfig(Sgd{.lr = 0.05}),
               OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}),
               OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true}),
               OptimizerConfig(Adam{.lr = 0.01, .weight_decay = 0.1}),
               OptimizerConfig(AdamW{.lr = 0.01, .amsgrad = true}));
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const int ranks = GENERATE(2, 3, 5);
  if (dtype == at::kBFloat16 && std::holds_alternative<Sgd>(config) && std::get<Sgd>(config).dampening > 0)
    return;  // refused
  CAPTURE(config.index(), c10::toString(dtype), ranks);

  const auto whole = parameters(dtype), divided = parameters(dtype);
  OptimizerSetup setup{.optimizer = config}, divided_setup{.optimizer = config};
  setup.groups = {{.parameters = {whole[1].tensor}, .lr = 0.003}};
  divided_setup.groups = {{.parameters = {divided[1].tensor}, .lr = 0.003}};
  const auto reference = make_optimizer(setup, whole);
  const ShardPlan plan = plan_shards(shapes_of(divided), ranks);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (const auto& shards : plan.shards) {
    optimizers.push_back(make_optimizer(divided_setup, divided, shards));
    CHECK(optimizers.back()->learning_rates() == reference->learning_rates());
  }

  for (int step = 0; step < 7; ++step) {
    const at::Tensor found_inf = at::full({1}, step == 2 ? 1.0f : 0.0f);
    set_gradients(whole, step);
    reference->step({.found_inf = &found_inf});
    set_gradients(divided, step);
    for (const auto& optimizer : optimizers) optimizer->step({.found_inf = &found_inf});
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CAPTURE(i);
    CHECK(at::equal(whole[i].tensor, divided[i].tensor));
  }
}

TEST_CASE("an optimizer remembers only what it updates") {
  const auto divided = parameters(at::kFloat);
  const ShardPlan plan = plan_shards(shapes_of(divided), 4);
  std::int64_t elements = 0, whole = 0;
  for (const auto& shards : plan.shards) {
    for (const auto& [name, tensor] : make_optimizer({.optimizer = Adam{}}, divided, shards)->state()) {
      if (name.starts_with("exp_avg.")) elements += tensor.numel();
    }
  }
  for (const auto& [name, tensor] : divided) whole += tensor.numel();
  CHECK(elements == whole);
}

TEST_CASE("LibTorch's own optimizers update whole parameters, whatever the shards") {
  const auto some = parameters(at::kFloat), all = parameters(at::kFloat);
  const ShardPlan plan = plan_shards(shapes_of(some), 2);
  const auto sharded = make_optimizer({.optimizer = rmsprop()}, some, plan.shards[1]);
  const auto reference = make_optimizer({.optimizer = rmsprop()}, all);
  set_gradients(some, 0);
  set_gradients(all, 0);
  sharded->step({});
  reference->step({});
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(at::equal(some[i].tensor, all[i].tensor));
}

}  // namespace
}  // namespace cxtrain
