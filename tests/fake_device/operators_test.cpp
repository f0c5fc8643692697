#include <ATen/ATen.h>

#include <functional>

#include "fixture.h"

using namespace cxtrain::test;

namespace {

using Operator = std::function<at::Tensor(const at::Tensor& x)>;  ///< x: [4, 6], above 0

/// Value and gradient of an operator's sum on this device.
std::pair<at::Tensor, at::Tensor> run(const Operator& op, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(3);
  const at::Tensor leaf = (at::rand({4, 6}) + 0.1).to(device).requires_grad_();
  const at::Tensor value = op(leaf);
  CHECK(value.device() == device);
  if (value.requires_grad()) value.sum().backward();
  return {value.detach().cpu(), leaf.grad().defined() ? leaf.grad().cpu() : at::Tensor()};
}

at::Tensor weights(const at::Tensor& x, at::IntArrayRef size) {
  return at::linspace(-1, 1, c10::multiply_integers(size)).view(size).to(x.device());
}

at::Tensor long_tensor(const at::Tensor& x, std::initializer_list<std::int64_t> values) {
  return at::tensor(at::ArrayRef<std::int64_t>(values)).to(x.device());
}

const std::vector<std::pair<const char*, Operator>> operators{
    {"conv1d",
     [](auto& x) {
       return at::conv1d(x.view({1, 4, 6}), weights(x, {2, 4, 3}), weights(x, {2}));
     }},
    {"conv2d, grouped and strided",
     [](auto& x) {
       return at::conv2d(x.view({1, 2, 3, 4}), weights(x, {4, 1, 2, 2}), weights(x, {4}), 2, 1, 1, 2);
     }},
    {"conv_transpose2d",
     [](auto& x) {
       return at::conv_transpose2d(x.view({1, 2, 3, 4}), weights(x, {2, 3, 2, 2}), weights(x, {3}), 2);
     }},
    {"max_pool2d",
     [](auto& x) {
       return at::max_pool2d(x.view({1, 1, 4, 6}), 2);
     }},
    {"adaptive_avg_pool2d",
     [](auto& x) {
       return at::adaptive_avg_pool2d(x.view({1, 1, 4, 6}), {2, 3});
     }},
    {"group_norm",
     [](auto& x) {
       return at::group_norm(x.view({2, 4, 3}), 2).pow(3);
     }},
    {"layer_norm", [](auto& x) { return at::layer_norm(x, {6}, weights(x, {6})).pow(3); }},
    {"instance_norm",
     [](auto& x) {
       return at::instance_norm(x.view({2, 2, 6}), {}, {}, {}, {}, true, 0.1, 1e-5, false).pow(3);
     }},
    {"upsample",
     [](auto& x) {
       return at::upsample_bilinear2d(x.view({1, 1, 4, 6}), {6, 8}, false);
     }},
    {"einsum",
     [](auto& x) {
       return at::einsum("ij,kj->ik", {x, weights(x, {3, 6})});
     }},
    {"index_select, gather, scatter",
     [](auto& x) {
       const at::Tensor rows = long_tensor(x, {3, 1, 1});
       return at::gather(x.index_select(0, rows), 1, rows.view({3, 1})) +
              at::scatter_add(x.sum(1), 0, rows, x.select(1, 0).slice(0, 0, 3)).slice(0, 0, 3).view({3, 1});
     }},
    {"indexing",
     [](auto& x) {
       return x.index({long_tensor(x, {0, 2, 2}), long_tensor(x, {1, 5, 5})});
     }},
    {"index_put",
     [](auto& x) {
       return at::index_put(weights(x, {4, 6}), {long_tensor(x, {1, 2})}, x.slice(0, 0, 2));
     }},
    {"where, masked_fill, tril",
     [](auto& x) { return at::where(x > 0.5, x * 2, x.tril()).masked_fill(x > 0.9, 3); }},
    {"sort, topk, cumsum, flip",
     [](auto& x) {
       return std::get<0>(x.sort(1)).cumsum(1).slice(1, 0, 2) + std::get<0>(x.flip(1).topk(2));
     }},
    {"max, argmax, prod, norm",
     [](auto& x) {
       return std::get<0>(x.max(1)) + x.prod(1) + x.norm(2, 1) + x.argmax(1) + x.logsumexp(1) + x.std(1);
     }},
    {"cat, stack, split, roll",
     [](auto& x) {
       return at::stack({at::cat(x.split(2, 1), 0), x.roll(1).view({12, 2})});
     }},
    {"losses",
     [](auto& x) {
       const at::Tensor y = weights(x, {4, 6}).abs();
       return at::mse_loss(x, y) + at::smooth_l1_loss(x, y) + at::binary_cross_entropy_with_logits(x, y) +
              at::kl_div(x.log(), y) + at::nll_loss(x.log_softmax(1), long_tensor(x, {0, 5, 2, 2}));
     }},
    {"activations",
     [](auto& x) {
       return at::gelu(x) + at::silu(x) + at::elu(x) + at::leaky_relu(x) + x.sigmoid() + x.tanh();
     }},
    {"embedding_bag",
     [](auto& x) {
       return std::get<0>(at::embedding_bag(x, long_tensor(x, {1, 3, 3}), long_tensor(x, {0, 2})));
     }},
    {"complex views",
     [](auto& x) {
       return at::view_as_real(at::view_as_complex(x.view({4, 3, 2})) * 2).conj();
     }},
    {"linalg",
     [](auto& x) { return at::linalg_solve(x.slice(1, 0, 4) + at::eye(4, x.options()), x.slice(1, 4)); }},
    {"bfloat16", [](auto& x) { return x.to(at::kBFloat16).matmul(x.to(at::kBFloat16).t()).to(at::kFloat); }},
};

}  // namespace

TEST_CASE_METHOD(TwoFakeDevices, "Operators that models use give the CPU's values and gradients") {
  for (const auto& [name, op] : operators) {
    INFO(name);
    const auto expected = run(op, at::kCPU);
    std::pair<at::Tensor, at::Tensor> found;
    REQUIRE_NOTHROW(found = run(op, fake_device(1)));
    CHECK(at::allclose(found.first, expected.first, 1e-4, 1e-5));
    REQUIRE(found.second.defined() == expected.second.defined());
    if (expected.second.defined()) CHECK(at::allclose(found.second, expected.second, 1e-4, 1e-5));
  }
}

TEST_CASE_METHOD(TwoFakeDevices, "Inference mode keeps its rules on a fake device") {
  at::Tensor made;
  const at::Tensor ordinary = at::zeros({2, 3}, at::device(device));
  {
    const c10::InferenceMode mode;
    CHECK_FALSE(ordinary.t().is_inference());
    CHECK_FALSE(ordinary.view({6}).is_inference());
    CHECK_FALSE(ordinary.slice(0, 1).is_inference());
    made = at::zeros({2}, at::device(device));
    made.add_(1);
    CHECK((made * 2).is_inference());
    CHECK(made.view({1, 2}).is_inference());
  }
  CHECK(made.is_inference());
  CHECK_THROWS_WITH(made.add_(1), contains("Inplace update to inference tensor"));
}
