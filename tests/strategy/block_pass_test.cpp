#include "cxtrain/strategy/block_pass.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/optim/optimizer.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/trainer/chain_module.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr std::int64_t kWords = 11, kWidth = 8;

/// Draws random numbers, and has buffers that a forward pass changes.
class NoisyImpl : public torch::nn::Module {
 public:
  NoisyImpl() {
    linear_ = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    norm_ = register_module("norm", torch::nn::BatchNorm1d(kWidth));
    dropout_ = register_module("dropout", torch::nn::Dropout(0.5));
  }
  /// Two tensors, of which the second has no gradient.
  Carry forward(const Carry& carry) {
    ++runs;
    const at::Tensor& x = carry.tensors[0];
    return Carry(std::vector<at::Tensor>{x + dropout_(at::tanh(norm_(linear_(x)))), carry.tensors[1]});
  }
  int runs = 0;

 private:
  torch::nn::Linear linear_{nullptr};
  torch::nn::BatchNorm1d norm_{nullptr};
  torch::nn::Dropout dropout_{nullptr};
};
TORCH_MODULE(Noisy);

class WordsImpl : public torch::nn::Module {
 public:
  WordsImpl() { table_ = register_module("table", torch::nn::Embedding(kWords, kWidth)); }
  Carry forward(const Carry& words) {
    return Carry(std::vector<at::Tensor>{table_(words.tensor()), words.tensor()});
  }
  const at::Tensor& weight() const { return table_->weight; }

 private:
  torch::nn::Embedding table_{nullptr};
};
TORCH_MODULE(Words);

/// Shares the weight of `Words`.
class AnswerImpl : public torch::nn::Module {
 public:
  explicit AnswerImpl(const at::Tensor& weight) { weight_ = register_parameter("weight", weight); }
  Carry forward(const Carry& carry) {
    return Carry(std::vector<at::Tensor>{carry.tensors[0].matmul(weight_.t()), carry.tensors[1]});
  }

 private:
  at::Tensor weight_;
};
TORCH_MODULE(Answer);

class Net : public ChainModule {
 public:
  Net() {
    at::manual_seed(3);
    const Words words = add_block("words", Words());
    for (int i = 0; i < 3; ++i) noisy.push_back(add_block("noisy." + std::to_string(i), Noisy()));
    add_block("answer", Answer(words->weight()));
  }
  at::Tensor loss(const Batch& batch) {
    const Carry outputs = run_blocks(batch);
    return at::cross_entropy_loss(outputs.tensors[0], outputs.tensors[1]);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }

  std::vector<Noisy> noisy;
};

Batch words() {
  at::manual_seed(4);
  return {.tensors = {at::randint(kWords, {16})}, .size = 16};
}

/// What two forward and backward passes leave.
struct Left {
  std::vector<at::Tensor> gradients, buffers;
  at::Tensor next_draw;
  double loss = 0;

  bool operator==(const Left& other) const {
    const auto same = [](const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) {
        return x.defined() == y.defined() && (!x.defined() || at::equal(x, y));
      });
    };
    return same(gradients, other.gradients) && same(buffers, other.buffers) &&
           at::equal(next_draw, other.next_draw) && loss == other.loss;
  }
};

Left train(Net& net, std::optional<c10::ScalarType> autocast = {}) {
  const Batch batch = words();
  at::manual_seed(5);
  Left left;
  for (int pass = 0; pass < 2; ++pass) {
    at::Tensor loss;
    {
      const AutocastGuard guard(c10::DeviceType::CPU, autocast);
      loss = net.loss(batch);
    }
    loss.backward();
    left.loss += loss.item<double>();
  }
  for (const at::Tensor& parameter : net.parameters()) left.gradients.push_back(parameter.grad());
  left.buffers = net.buffers();
  left.next_draw = at::randn({4});
  return left;
}

TEST_CASE("a recomputed chain has the gradients, buffers and random numbers of an ordinary chain") {
  const std::optional<c10::ScalarType> autocast =
      GENERATE(std::optional<c10::ScalarType>(), std::optional<c10::ScalarType>(at::kBFloat16));
  const bool frozen = GENERATE(false, true);
  Net plain, recomputing;
  for (Net* const net : {&plain, &recomputing}) {
    if (frozen) net->noisy[0]->parameters()[0].set_requires_grad(false);
  }
  trainable(recomputing).blocks()->set_recompute(true);
  CHECK(train(recomputing, autocast) == train(plain, autocast));
  CHECK(plain.noisy[1]->runs == 2);
  CHECK(recomputing.noisy[1]->runs == 4);
}

TEST_CASE("blocks whose inputs and parameters need no gradient are not run again") {
  Net net;
  for (at::Tensor& parameter : net.parameters()) parameter.set_requires_grad(false);
  for (at::Tensor& parameter : net.noisy[2]->parameters()) parameter.set_requires_grad(true);
  trainable(net).blocks()->set_recompute(true);
  train(net);
  CHECK(net.noisy[1]->runs == 2);
  CHECK(net.noisy[2]->runs == 4);
}

TEST_CASE("without gradients a chain that recomputes runs each block once") {
  Net net;
  trainable(net).blocks()->set_recompute(true);
  const at::NoGradGuard no_grad;
  CHECK_FALSE(net.loss(words()).requires_grad());
  CHECK(net.noisy[0]->runs == 1);
}

TEST_CASE("a chain that recomputes keeps no graph of its blocks") {
  Net net;
  trainable(net).blocks()->set_recompute(true);
  const at::Tensor loss = net.loss(words());
  // From the loss to the words: one function for each block, and none of their layers.
  int functions = 0;
  std::vector<torch::autograd::Node*> nodes{loss.grad_fn().get()};
  std::set<torch::autograd::Node*> seen;
  while (!nodes.empty()) {
    torch::autograd::Node* const node = nodes.back();
    nodes.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->name().find("BlockFunction") != std::string::npos) ++functions;
    CHECK(node->name().find("Addmm") == std::string::npos);
    for (const auto& edge : node->next_edges()) {
      if (edge.is_valid()) nodes.push_back(edge.function.get());
    }
  }
  CHECK(functions == 5);
}

/// The calls that it gets.
struct Recorder final : BlockObserver {
  void before_forward(std::size_t block) override { calls += "f" + std::to_string(block); }
  void after_forward(std::size_t block) override { calls += "/" + std::to_string(block); }
  void before_backward(std::size_t block) override { calls += "b" + std::to_string(block); }
  void after_backward(std::size_t block) override { calls += "\\" + std::to_string(block); }
  std::string calls;
};

TEST_CASE("an observer sees each pass of a block, and changes no bits") {
  const bool recompute = GENERATE(false, true);
  Net plain, net;
  trainable(net).blocks()->set_recompute(recompute);
  Recorder recorder;
  trainable(net).blocks()->set_observer(&recorder);
  CHECK(train(net) == train(plain));
  const std::string pass = "f0/0f1/1f2/2f3/3f4/4b4\\4b3\\3b2\\2b1\\1b0\\0";
  CHECK(recorder.calls == pass + pass);
  CHECK(net.noisy[0]->runs == (recompute ? 4 : 2));
}

/// Adds two tensors behind a layer for each.
class JoinImpl : public torch::nn::Module {
 public:
  JoinImpl() {
    a_ = register_module("a", torch::nn::Linear(kWidth, 2));
    b_ = register_module("b", torch::nn::Linear(kWidth, 2));
  }
  at::Tensor forward(const Carry& both) { return a_(both.tensors[0]) + b_(both.tensors[1]); }

 private:
  torch::nn::Linear a_{nullptr}, b_{nullptr};
};
TORCH_MODULE(Join);

/// Its last block takes the outputs of two blocks.
class Forked : public BlockModule {
 public:
  Forked() {
    at::manual_seed(6);
    root_ = add_block("root", torch::nn::Linear(3, kWidth));
    left_ = add_block("left", torch::nn::Linear(kWidth, kWidth));
    right_ = add_block("right", torch::nn::Linear(kWidth, kWidth));
    join_ = add_block("join", Join());
  }
  at::Tensor loss(const at::Tensor& input) {
    const at::Tensor root = run_block(root_, input);
    const at::Tensor left = run_block(left_, at::tanh(root)), right = run_block(right_, root);
    return run_block(join_, Carry({left, right})).tensor().square().sum();
  }
  /// The same, without `run_block`.
  at::Tensor plain_loss(const at::Tensor& input) {
    const at::Tensor root = root_(input);
    return join_->forward(Carry({left_(at::tanh(root)), right_(root)})).square().sum();
  }
  void run_other() { run_block(torch::nn::Linear(3, 3), at::zeros({1, 3})); }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return loss(batch[0]); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }

 private:
  torch::nn::Linear root_{nullptr}, left_{nullptr}, right_{nullptr};
  Join join_{nullptr};
};

TEST_CASE("blocks run in any wiring, seen by an observer and recomputed, with the same gradients") {
  const at::Tensor input = at::ones({4, 3});
  Forked plain, net;
  const bool observed = GENERATE(false, true);
  trainable(net).blocks()->set_recompute(GENERATE(false, true));
  Recorder recorder;
  if (observed) trainable(net).blocks()->set_observer(&recorder);
  const at::Tensor loss = net.loss(input), expected = plain.plain_loss(input);
  CHECK(loss.equal(expected));
  loss.backward();
  expected.backward();
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    CHECK(net.parameters()[i].grad().equal(plain.parameters()[i].grad()));
  CHECK(recorder.calls == (observed ? "f0/0f1/1f2/2f3/3b3\\3b2\\2b1\\1b0\\0" : ""));
}

TEST_CASE("run_block accepts blocks of the model only, and in steps only if other ranks have some of them") {
  Forked net;
  CHECK(trainable(net).chain() == nullptr);
  CHECK_THROWS_WITH(net.run_other(), test::contains("no block of the model"));
  trainable(net).blocks()->set_whole(false);
  CHECK_THROWS_WITH(net.loss(at::ones({4, 3})), test::contains("outside of a step"));
}

/// Changes its input.
class GreedyImpl : public torch::nn::Module {
 public:
  at::Tensor forward(const at::Tensor& x) { return at::Tensor(x).mul_(2); }
};
TORCH_MODULE(Greedy);

TEST_CASE("a block that changes the input of a recomputed block is an error with its name") {
  struct Bad : ChainModule {
    Bad() {
      add_block("first", torch::nn::Linear(2, 2));
      add_block("greedy", Greedy());
    }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      return run_blocks(batch).tensor().sum();
    }
    Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
  };
  Bad net;
  trainable(net).blocks()->set_recompute(true);
  const at::Tensor loss = net.training_step({.tensors = {at::randn({3, 2})}, .size = 3}, 0).loss;
  CHECK_THROWS_WITH(loss.backward(), test::contains("`greedy`") && test::contains("in place"));
}

TEST_CASE("a recomputed block has no second derivatives, and says so") {
  Net net;
  trainable(net).blocks()->set_recompute(true);
  const at::Tensor loss = net.loss(words());
  CHECK_THROWS_WITH(
      torch::autograd::grad({loss}, {net.parameters()[1]}, {}, std::nullopt, /*create_graph=*/true),
      test::contains("second derivatives"));
}

}  // namespace
}  // namespace cxtrain
