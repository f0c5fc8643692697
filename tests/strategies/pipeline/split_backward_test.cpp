#include "strategies/pipeline/split_backward.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include <functional>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// A graph from some leaves to some outputs.
struct Graph {
  std::vector<at::Tensor> inputs, parameters;
  std::function<std::vector<at::Tensor>()> run;
};

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) {
    gradients.push_back(leaf.grad());
    leaf.mutable_grad().reset();
  }
  return gradients;
}

void check_same(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    REQUIRE(found[i].defined() == expected[i].defined());
    if (expected[i].defined()) CHECK(at::equal(found[i], expected[i]));
  }
}

/// Two micro-batches, so that gradients are added.
void check_equals_one_backward(const Graph& graph) {
  std::vector<at::Tensor> with;
  const auto run = [&] {
    std::vector<at::Tensor> outputs = graph.run();
    with.clear();
    for (const at::Tensor& output : outputs) with.push_back(at::ones_like(output) * 0.7);
    return outputs;
  };
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) torch::autograd::backward(run(), with);
  const std::vector<at::Tensor> parameters = gradients_of(graph.parameters);
  gradients_of(graph.inputs);
  torch::autograd::backward(run(), with);
  const std::vector<at::Tensor> inputs = gradients_of(graph.inputs);
  gradients_of(graph.parameters);

  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    const std::vector<at::Tensor> outputs = run();
    SplitBackward split(outputs, with, graph.inputs);
    check_same(gradients_of(graph.inputs), inputs);
    split.run_rest();
  }
  check_same(gradients_of(graph.parameters), parameters);
}

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

TEST_CASE("a backward pass in two parts has the bits of one", "[pipeline]") {
  at::manual_seed(3);
  const at::Tensor x = leaf({5, 4, 8}), y = leaf({5, 4, 8});
  SECTION("layers") {
    torch::nn::Linear first(8, 8), second(8, 8);
    torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({8}));
    std::vector<at::Tensor> parameters = first->parameters();
    for (const at::Tensor& more : second->parameters()) parameters.push_back(more);
    for (const at::Tensor& more : norm->parameters()) parameters.push_back(more);
    check_equals_one_backward({{x, y}, parameters, [=]() mutable {
                                 const at::Tensor hidden = second(norm(first(x).tanh() + x)) * y;
                                 return std::vector{hidden.sum(), hidden + y};
                               }});
  }
  SECTION("a parameter used three times, in part by way of another tensor") {
    const at::Tensor w = leaf({8, 8});
    check_equals_one_backward({{x}, {w}, [=] {
                                 const at::Tensor scaled = w * 0.5;
                                 return std::vector{x.matmul(scaled).tanh().matmul(scaled).matmul(w)};
                               }});
  }
  SECTION("functions with several outputs") {
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(8, 4));
    const at::Tensor w = leaf({4});
    std::vector<at::Tensor> parameters = lstm->parameters();
    parameters.push_back(w);
    check_equals_one_backward({{x}, parameters, [=]() mutable {
                                 const auto parts = std::get<0>(lstm->forward(x)).chunk(2, 2);
                                 return std::vector{parts[0].sum() + (x.chunk(2, 2)[1] * w).sum()};
                               }});
  }
  SECTION("outputs without inputs, inputs without outputs") {
    torch::nn::Embedding table(10, 8);
    const at::Tensor tokens = at::randint(10, {5, 4});
    check_equals_one_backward({{x, y}, table->parameters(), [=]() mutable {
                                 return std::vector{table(tokens), x * 2, (table(tokens) * x).sum()};
                               }});
    check_equals_one_backward(
        {{}, table->parameters(), [=]() mutable { return std::vector{table(tokens).tanh()}; }});
  }
  SECTION("a hook runs once") {
    const at::Tensor w = leaf({8, 8});
    check_equals_one_backward({{x}, {w}, [=] {
                                 const at::Tensor hidden = x.matmul(w);
                                 hidden.register_hook(
                                     [](const at::Tensor& gradient) { return gradient * 3; });
                                 return std::vector{hidden.tanh()};
                               }});
  }
}

TEST_CASE("the second part of a backward pass needs neither outputs nor inputs", "[pipeline]") {
  const at::Tensor w = leaf({3, 3});
  std::optional<SplitBackward> split;
  {
    const at::Tensor x = leaf({2, 3});
    split.emplace(std::vector{x.matmul(w)}, std::vector{at::ones({2, 3})}, std::vector{x});
    CHECK(at::equal(x.grad(), at::ones({2, 3}).matmul(w.detach().t())));
    CHECK_FALSE(w.grad().defined());
  }
  split->run_rest();
  CHECK(w.grad().defined());
}

}  // namespace
}  // namespace cxtrain
