#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/optimizer.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, tensor] : parameters) gradients.push_back(tensor.grad());
  return gradients;
}

/// Two copies of some parameters: one for ours, one for LibTorch's optimizer, fed the same gradients.
struct Pair {
  std::vector<NamedTensor> ours;
  std::vector<at::Tensor> theirs;

  Pair() {
    at::manual_seed(7);
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{3}, {17, 5}, {2, 3, 4}}) {
      const at::Tensor start = at::rand(shape);
      ours.push_back({"p" + std::to_string(ours.size()), start.clone().set_requires_grad(true)});
      theirs.push_back(start.clone().set_requires_grad(true));
    }
  }
  void set_gradients(bool skip_first = false) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = at::rand(ours[i].tensor.sizes()).sub(0.3);
      const bool skip = skip_first && i == 0;
      ours[i].tensor.mutable_grad() = skip ? at::Tensor() : gradient.clone();
      theirs[i].mutable_grad() = skip ? at::Tensor() : gradient.clone();
    }
  }
  std::vector<at::Tensor> gradients() const { return gradients_of(ours); }
  void check_equal() const {
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(at::allclose(ours[i].tensor, theirs[i], 1e-5, 1e-6));
  }
};

void compare(const OptimizerConfig& config,
             const std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>& make) {
  Pair pair;
  const auto ours = make_optimizer({.optimizer = config}, pair.ours);
  const auto theirs = make(pair.theirs);
  for (int step = 0; step < 12; ++step) {
    pair.set_gradients(step % 5 == 3);
    const auto gradients = pair.gradients();
    ours->step({.gradients = gradients});
    theirs->step();
  }
  pair.check_equal();
}

TEST_CASE("sgd takes LibTorch's steps") {
  const double momentum = GENERATE(0.0, 0.9), dampening = GENERATE(0.0, 0.3), decay = GENERATE(0.0, 0.1);
  const bool nesterov = momentum > 0 && dampening == 0 && decay > 0;
  CAPTURE(momentum, dampening, decay, nesterov);
  compare(Sgd{.lr = 0.05,
              .momentum = momentum,
              .dampening = dampening,
              .weight_decay = decay,
              .nesterov = nesterov},
          [&](auto parameters) {
            return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05)
                                                                       .momentum(momentum)
                                                                       .dampening(dampening)
                                                                       .weight_decay(decay)
                                                                       .nesterov(nesterov));
          });
}

TEST_CASE("adam and adamw take LibTorch's steps") {
  const double decay = GENERATE(0.0, 0.1);
  const bool amsgrad = GENERATE(false, true);
  CAPTURE(decay, amsgrad);
  compare(Adam{.lr = 0.01, .beta1 = 0.8, .weight_decay = decay, .amsgrad = amsgrad}, [&](auto parameters) {
    return std::make_unique<torch::optim::Adam>(
        parameters, torch::optim::AdamOptions(0.01).betas({0.8, 0.999}).weight_decay(decay).amsgrad(amsgrad));
  });
  compare(AdamW{.lr = 0.01, .eps = 1e-6, .weight_decay = decay, .amsgrad = amsgrad}, [&](auto parameters) {
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(0.01).eps(1e-6).weight_decay(decay).amsgrad(amsgrad));
  });
}

TEST_CASE("LibTorch's other optimizers run behind the adapter") {
  compare(Rmsprop{.lr = 0.01, .alpha = 0.9, .momentum = 0.5}, [](auto parameters) {
    return std::make_unique<torch::optim::RMSprop>(
        parameters, torch::optim::RMSpropOptions(0.01).alpha(0.9).momentum(0.5));
  });
  compare(Adagrad{.lr = 0.1, .lr_decay = 0.01}, [](auto parameters) {
    return std::make_unique<torch::optim::Adagrad>(parameters,
                                                   torch::optim::AdagradOptions(0.1).lr_decay(0.01));
  });
}

TEST_CASE("lbfgs finds the minimum of a quadratic through its closure") {
  const at::Tensor x = at::full({4}, 5.0, at::kDouble).set_requires_grad(true);
  const auto optimizer = make_optimizer({.optimizer = Lbfgs{}}, {{"x", x}});
  REQUIRE(optimizer->needs_closure());
  std::vector<at::Tensor> gradients(1);
  optimizer->step({.gradients = gradients, .closure = [&] {
                     x.mutable_grad().reset();
                     at::Tensor loss = x.sub(2).pow(2).sum();
                     loss.backward();
                     gradients[0] = x.grad();
                     return loss;
                   }});
  CHECK(at::allclose(x, at::full({4}, 2.0, at::kDouble)));
}

TEST_CASE("optimizers update every element of 16-bit parameters") {
  const at::ScalarType dtype = GENERATE(at::kBFloat16, at::kHalf);
  const OptimizerConfig config =
      GENERATE(OptimizerConfig(Sgd{.lr = 0.1}),
               OptimizerConfig(Sgd{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}),
               OptimizerConfig(Adam{.lr = 0.1}), OptimizerConfig(AdamW{.lr = 0.1}));
  const at::Tensor start = at::rand({301}), wide = start.clone().set_requires_grad(true);
  const at::Tensor narrow = start.to(dtype).set_requires_grad(true);
  const auto reference = make_optimizer({.optimizer = config}, {{"p", wide}});
  const auto optimizer = make_optimizer({.optimizer = config}, {{"p", narrow}});
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradient = at::rand({301}).sub(0.5);
    const std::vector<at::Tensor> of_wide{gradient}, of_narrow{gradient.to(dtype)};
    reference->step({.gradients = of_wide});
    optimizer->step({.gradients = of_narrow});
  }
  const double tolerance = dtype == at::kHalf ? 0.01 : 0.06;
  CHECK(at::allclose(narrow.to(at::kFloat), wide, tolerance, tolerance));
}

TEST_CASE("a step whose gradients overflowed changes neither parameters nor state") {
  const OptimizerConfig config = GENERATE(OptimizerConfig(Sgd{.lr = 0.1, .momentum = 0.9}),
                                          OptimizerConfig(AdamW{}), OptimizerConfig(Rmsprop{}));
  Pair with, without;
  const auto skipping = make_optimizer({.optimizer = config}, with.ours);
  const auto plain = make_optimizer({.optimizer = config}, without.ours);
  const at::Tensor yes = at::ones({1}), no = at::full({1}, 0.0);
  for (int step = 0; step < 6; ++step) {
    at::manual_seed(static_cast<std::uint64_t>(step));
    with.set_gradients();
    const auto gradients = with.gradients();
    if (step % 2 == 1) {
      skipping->step({.gradients = gradients, .found_inf = &yes});
      continue;
    }
    skipping->step({.gradients = gradients, .found_inf = &no});
    at::manual_seed(static_cast<std::uint64_t>(step));
    without.set_gradients();
    const auto same = without.gradients();
    plain->step({.gradients = same});
  }
  for (std::size_t i = 0; i < with.ours.size(); ++i) {
    CHECK(at::allclose(with.ours[i].tensor, without.ours[i].tensor, 1e-6, 1e-7));
  }
  if (runs_in_libtorch(config)) return;  // an archive, which names memory
  const auto a = skipping->state(), b = plain->state();
  REQUIRE_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(at::allclose(a[i].values, b[i].values));
}

TEST_CASE("parameter groups have rates and decays of their own") {
  Pair pair;
  OptimizerSetup setup{.optimizer = Sgd{.lr = 1.0}};
  setup.groups = {{.parameters = {pair.ours[1].tensor}, .lr = 0.5}};
  const auto optimizer = make_optimizer(setup, pair.ours);
  CHECK(optimizer->learning_rates() == std::vector<double>{0.5, 1.0});
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : pair.ours) gradients.push_back(at::ones(parameter.tensor.sizes()));
  optimizer->set_lr_factor(0.5);
  optimizer->step({.gradients = gradients});
  CHECK(at::allclose(pair.ours[0].tensor, pair.theirs[0].sub(0.5)));
  CHECK(at::allclose(pair.ours[1].tensor, pair.theirs[1].sub(0.25)));

  setup.groups.push_back(setup.groups[0]);
  CHECK_THAT(test::error_of([&] { make_optimizer(setup, pair.ours); }),
             test::contains(test::code(MessageCode::bad_model)) && test::contains("two groups"));
}

TEST_CASE("groups of LibTorch's optimizers have decays of their own") {
  Pair pair;
  OptimizerSetup setup{.optimizer = Rmsprop{.lr = 0.01, .weight_decay = 0.3}};
  setup.groups = {{.parameters = {pair.ours[1].tensor}, .lr = {}, .weight_decay = 0.0}};
  const auto ours = make_optimizer(setup, pair.ours);
  torch::optim::RMSprop decays(std::vector{pair.theirs[0], pair.theirs[2]},
                               torch::optim::RMSpropOptions(0.01).weight_decay(0.3)),
      stays(std::vector{pair.theirs[1]}, torch::optim::RMSpropOptions(0.01));
  for (int step = 0; step < 5; ++step) {
    pair.set_gradients();
    const auto gradients = pair.gradients();
    ours->step({.gradients = gradients});
    decays.step();
    stays.step();
  }
  pair.check_equal();
  setup.optimizer = Lbfgs{};
  CHECK_THAT(test::error_of([&] { make_optimizer(setup, pair.ours); }),
             test::contains(test::code(MessageCode::bad_model)) && test::contains("weight_decay"));
}

TEST_CASE("LibTorch's optimizers resume with the options of this run") {
  Pair saved, resumed;
  const auto before = make_optimizer({.optimizer = Rmsprop{.lr = 0.01}}, saved.ours);
  saved.set_gradients();
  const auto gradients = saved.gradients();
  before->step({.gradients = gradients});
  const auto after = make_optimizer({.optimizer = Rmsprop{.lr = 0.01, .weight_decay = 0.5}}, resumed.ours);
  after->load(before->state());
  std::vector<at::Tensor> zeros;
  for (const NamedTensor& parameter : resumed.ours) zeros.push_back(at::zeros_like(parameter.tensor));
  after->step({.gradients = zeros});
  for (std::size_t i = 0; i < zeros.size(); ++i)
    CHECK_FALSE(at::equal(resumed.ours[i].tensor, resumed.theirs[i]));  // they have decayed
}

TEST_CASE("a gradient counts by its elements, however it lies in memory") {
  const OptimizerConfig config = GENERATE(OptimizerConfig(Sgd{.lr = 0.1}), OptimizerConfig(Adam{}));
  const at::Tensor start = at::rand({4, 3, 5, 5}), gradient = at::rand({4, 3, 5, 5});
  const at::Tensor one = start.clone().set_requires_grad(true), other = start.clone().set_requires_grad(true);
  const std::vector<at::Tensor> alike{gradient},
      otherwise{gradient.contiguous(at::MemoryFormat::ChannelsLast)};
  make_optimizer({.optimizer = config}, {{"p", one}})->step({.gradients = alike});
  make_optimizer({.optimizer = config}, {{"p", other}})->step({.gradients = otherwise});
  CHECK(at::equal(one, other));
}

TEST_CASE("a step is a write that others notice") {
  const OptimizerConfig config =
      GENERATE(OptimizerConfig(Sgd{.lr = 0.1}), OptimizerConfig(Sgd{.momentum = 0.9}),
               OptimizerConfig(Sgd{.momentum = 0.9, .dampening = 0.3}), OptimizerConfig(Adam{}),
               OptimizerConfig(AdamW{.amsgrad = true}));
  Pair pair;
  const auto optimizer = make_optimizer({.optimizer = config}, pair.ours);
  pair.set_gradients(/*skip_first=*/true);
  std::vector<std::int64_t> versions;
  for (const NamedTensor& parameter : pair.ours) versions.push_back(parameter.tensor._version());
  at::Tensor loss = pair.ours[1].tensor.pow(2).sum();
  const auto gradients = pair.gradients();
  optimizer->step({.gradients = gradients});
  CHECK(pair.ours[0].tensor._version() == versions[0]);  // it had no gradient
  CHECK(pair.ours[1].tensor._version() > versions[1]);
  CHECK(pair.ours[2].tensor._version() > versions[2]);
  CHECK_THROWS_WITH(loss.backward(), test::contains("inplace operation"));
}

/// A user's optimizer that forgets to override save and load.
class ForgetfulOptimizer : public torch::optim::Optimizer {
 public:
  explicit ForgetfulOptimizer(std::vector<torch::optim::OptimizerParamGroup> groups)
      : Optimizer(std::move(groups), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure) override { return {}; }
};

TEST_CASE("an optimizer goes on from another one's state as that one would") {
  const OptimizerConfig config =
      GENERATE(OptimizerConfig(Sgd{.lr = 0.05}), OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9}),
               OptimizerConfig(Sgd{.lr = 0.05, .momentum = 0.9, .dampening = 0.3}),
               OptimizerConfig(Adam{.lr = 0.01}), OptimizerConfig(AdamW{.lr = 0.01, .amsgrad = true}),
               OptimizerConfig(Rmsprop{.lr = 0.01, .alpha = 0.9, .momentum = 0.5}),
               OptimizerConfig(Adagrad{.lr = 0.1, .lr_decay = 0.01}));
  CAPTURE(config.index());
  Pair first, second;
  // A parameter that is frozen at first gets its state later.
  for (Pair* pair : {&first, &second}) pair->ours[2].tensor.set_requires_grad(false);
  const auto train = [](Optimizer& optimizer, Pair& pair, int begin, int end) {
    for (int step = begin; step < end; ++step) {
      at::manual_seed(static_cast<std::uint64_t>(step));
      pair.set_gradients(step % 5 == 0);
      auto gradients = pair.gradients();
      if (step < 3) gradients[2] = at::Tensor();
      optimizer.step({.gradients = gradients});
    }
  };
  const auto whole = make_optimizer({.optimizer = config}, first.ours);
  const auto half = make_optimizer({.optimizer = config}, second.ours);
  const int stop = GENERATE(1, 6);
  train(*whole, first, 0, 10);
  train(*half, second, 0, stop);
  const auto resumed = make_optimizer({.optimizer = config}, second.ours);
  resumed->load(half->state());
  train(*resumed, second, stop, 10);
  for (std::size_t i = 0; i < first.ours.size(); ++i)
    CHECK(at::equal(first.ours[i].tensor, second.ours[i].tensor));
}

TEST_CASE("a state with a program is refused before the program may run") {
  torch::jit::Module module("Evil");
  module.register_attribute("x", c10::IntType::get(), 1);
  module.define(
      "def __setstate__(self, state: int) -> None:\n    self.x = state\n"
      "def __getstate__(self) -> int:\n    return self.x\n");
  std::ostringstream stream;
  module.save(stream);
  const std::string text = stream.str();
  const auto bytes_of = [](const std::string& archive) {
    const at::Tensor bytes = at::empty({static_cast<std::int64_t>(archive.size())}, at::kByte);
    std::copy(archive.begin(), archive.end(), bytes.mutable_data_ptr<std::uint8_t>());
    return std::vector<Piece>{whole_piece("libtorch.rmsprop", bytes)};
  };
  Pair pair;
  const auto optimizer = make_optimizer({.optimizer = Rmsprop{}}, pair.ours);
  CHECK_THAT(test::error_of<StateError>([&] { optimizer->load(bytes_of(text)); }),
             test::contains("libtorch.rmsprop") && test::contains("program"));
  CHECK_THAT(test::error_of<StateError>([&] { optimizer->load(bytes_of(text.substr(0, 100))); }),
             test::contains("damaged"));
}

TEST_CASE("a state that is not an optimizer's own is refused, and names what is wrong") {
  Pair pair;
  const auto adam = make_optimizer({.optimizer = Adam{}}, pair.ours);
  const auto sgd = make_optimizer({.optimizer = Sgd{.momentum = 0.9}}, pair.ours);
  CHECK_THAT(test::error_of([&] { sgd->load(adam->state()); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("momentum_buffer.p0"));
  const auto plain = make_optimizer({.optimizer = Sgd{}}, pair.ours);
  CHECK_THAT(test::error_of([&] { plain->load(adam->state()); }),
             test::contains(test::code(MessageCode::model_mismatch)) && test::contains("exp_avg.p0"));
  auto state = adam->state();
  state.pop_back();
  CHECK_THAT(test::error_of([&] { adam->load(state); }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("step.p2"));
  state = adam->state();
  state[0] = whole_piece(state[0].name, at::ones({4}));
  CHECK_THAT(test::error_of([&] { adam->load(state); }), test::contains(test::code(MessageCode::bad_state)) &&
                                                             test::contains("[3]") &&
                                                             test::contains("exp_avg.p0"));
  const LibTorchOptimizer own{
      .name = "forgetful", .lr = 0.1, .needs_closure = false, .make = [](auto groups) {
        return std::make_unique<ForgetfulOptimizer>(std::move(groups));
      }};
  CHECK_THAT(test::error_of([&] { make_optimizer({.optimizer = own}, pair.ours)->state(); }),
             test::contains(test::code(MessageCode::training_failed)) && test::contains("forgetful") &&
                 test::contains("save"));
}

}  // namespace
}  // namespace cxtrain
