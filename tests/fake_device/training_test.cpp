#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "fixture.h"

using namespace cxtrain::test;
namespace nn = torch::nn;

namespace {

void seed(c10::Device device, std::uint64_t value) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  generator.set_current_seed(value);
}

nn::Sequential make_mlp() {
  return nn::Sequential(nn::Linear(12, 16), nn::ReLU(), nn::Dropout(0.5), nn::Linear(16, 16), nn::GELU(),
                        nn::LayerNorm(nn::LayerNormOptions({16})), nn::Linear(16, 4));
}

nn::Sequential make_cnn() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 4, 3).padding(1)), nn::BatchNorm2d(4), nn::ReLU(),
                        nn::Conv2d(nn::Conv2dOptions(4, 6, 3).stride(2).bias(false)), nn::BatchNorm2d(6),
                        nn::ReLU(), nn::Dropout(0.5), nn::Flatten(), nn::Linear(6 * 9, 4));
}

/// Fused Adam with what a gradient scaler hands over.
struct Adam {
  explicit Adam(std::vector<at::Tensor> of) : parameters(std::move(of)) {
    for (const at::Tensor& p : parameters) {
      m.push_back(at::zeros_like(p));
      v.push_back(at::zeros_like(p));
      steps.push_back(at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false)));
    }
    scale = at::full({}, 2.f, steps[0].options());
    found_inf = at::zeros({}, steps[0].options());
  }
  void step() {
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& p : parameters) gradients.push_back(p.grad());
    at::_foreach_add_(steps, 1);
    at::_fused_adam_(parameters, gradients, m, v, {}, steps, 0.01, 0.9, 0.999, 0.01, 1e-8, false, false,
                     scale, found_inf);
  }
  std::vector<at::Tensor> parameters, m, v, steps;
  at::Tensor scale, found_inf;
};

/// The parameters and buffers after some steps on this device.
std::vector<at::Tensor> train(nn::Sequential (*make)(), at::IntArrayRef shape, c10::Device device) {
  seed(at::kCPU, 1);
  nn::Sequential model = make();
  std::vector<std::int64_t> size = shape.vec();
  size.insert(size.begin(), 8);
  const at::Tensor inputs = at::randn(size), labels = at::randint(4, {8}, at::kLong);
  model->to(device);
  seed(device, 3);
  Adam adam(model->parameters());
  for (int step = 0; step < 20; ++step) {
    model->zero_grad();
    const at::Tensor scores = model->forward(inputs.to(device));
    const at::Tensor loss = at::cross_entropy_loss(scores, labels.to(device));
    (loss * adam.scale).backward();
    adam.step();
  }
  std::vector<at::Tensor> result = model->parameters();
  for (const at::Tensor& buffer : model->buffers()) result.push_back(buffer);
  return result;
}

void check_like_cpu(nn::Sequential (*make)(), at::IntArrayRef shape) {
  const auto expected = train(make, shape, at::kCPU);
  const auto found = train(make, shape, fake_device(1));
  REQUIRE(expected.size() == found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].device() == fake_device(1));
    CHECK(found[i].cpu().equal(expected[i]));
  }
}

}  // namespace

TEST_CASE_METHOD(TwoFakeDevices, "An MLP trains on a fake device to the CPU's bits") {
  check_like_cpu(make_mlp, {12});
}

TEST_CASE_METHOD(TwoFakeDevices, "A CNN trains on a fake device to the CPU's bits") {
  check_like_cpu(make_cnn, {1, 8, 8});
}

TEST_CASE_METHOD(TwoFakeDevices, "A step without a host read reads nothing") {
  nn::Sequential model = make_mlp();
  model->to(fake_device(0));
  Adam adam(model->parameters());
  const at::Tensor input = at::randn({8, 12}, at::device(fake_device(0)));
  const HostReads host_reads;
  model->forward(input).mean().backward();
  at::_foreach_norm(model->parameters());
  adam.step();
  CHECK(host_reads.names().empty());
}

TEST_CASE_METHOD(TwoFakeDevices, "A model over two fake devices learns what it learns on one") {
  const auto step = [](c10::Device one, c10::Device two) {
    seed(at::kCPU, 1);
    nn::Linear first(4, 8), second(8, 2);
    const at::Tensor input = at::randn({3, 4});
    first->to(one);
    second->to(two);
    second->forward(first->forward(input.to(one)).relu().to(two)).sum().backward();
    return std::pair(first->weight.grad().cpu(), second->weight.grad().cpu());
  };
  const auto expected = step(at::kCPU, at::kCPU);
  const auto found = step(fake_device(0), fake_device(1));
  CHECK(found.first.equal(expected.first));
  CHECK(found.second.equal(expected.second));
}

TEST_CASE_METHOD(TwoFakeDevices, "A backward pass runs on the streams of its forward pass") {
  const c10::Stream side = side_stream();
  const at::Tensor leaf = at::ones({4}, at::device(device)).requires_grad_();
  at::Tensor result;
  c10::StreamId seen = -1;
  {
    c10::Event event(device.type());
    event.record(main);
    event.block(side);
    const c10::StreamGuard in(side);
    result = leaf * 2;
    result.register_hook([&](const at::Tensor&) { seen = impl.getStream(device).id(); });
    result = result * 3;
    event.record(side);
    event.block(main);
  }
  result.record_stream(main);
  result.sum().backward();
  CHECK(seen == side.id());
  CHECK((leaf.grad() + 1).cpu().equal(at::full({4}, 7.f)));  // autograd has ordered the caller's stream
}

TEST_CASE_METHOD(TwoFakeDevices, "An error in backward comes out of it") {
  const at::Tensor leaf = at::ones({4}, at::device(device)).requires_grad_();
  const at::Tensor other = at::ones({4}, at::device(device));
  const at::Tensor result = (leaf * other).sum();
  const c10::Stream side = side_stream();
  {
    const c10::StreamGuard in(side);
    CHECK_THROWS_AS(at::mul_out(const_cast<at::Tensor&>(other), other, other), FakeDeviceRace);
  }
  leaf.register_hook([&](const at::Tensor& gradient) {
    const c10::StreamGuard in(side);
    gradient.add(1);
  });
  CHECK_THROWS_AS(result.backward(), FakeDeviceRace);
  CHECK(fake_races().size() == 2);
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "Autocast on a fake device computes in half precision what CUDA does") {
  const auto type = device.type();
  nn::Linear linear(4, 4);
  nn::Conv2d conv(nn::Conv2dOptions(1, 2, 3));
  linear->to(device);
  conv->to(device);
  const at::Tensor input = at::randn({2, 4}, at::device(device));
  at::autocast::set_autocast_enabled(type, true);
  at::autocast::set_autocast_dtype(type, at::kBFloat16);
  at::autocast::increment_nesting();
  const at::Tensor hidden = linear->forward(input);
  const at::Tensor image = conv->forward(at::randn({1, 1, 5, 5}, at::device(device)));
  const at::Tensor normal = hidden.softmax(1);
  const at::Tensor loss =
      at::cross_entropy_loss(hidden, at::tensor({1, 2}, at::device(device).dtype(at::kLong)));
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type, false);
  CHECK(hidden.scalar_type() == at::kBFloat16);
  CHECK(image.scalar_type() == at::kBFloat16);
  CHECK(normal.scalar_type() == at::kFloat);
  CHECK(loss.scalar_type() == at::kFloat);
  loss.backward();
  CHECK(linear->weight.grad().scalar_type() == at::kFloat);
  CHECK(linear->forward(input).scalar_type() == at::kFloat);
}

TEST_CASE_METHOD(TwoFakeDevices, "Attention, embeddings and losses work in both directions") {
  const auto gradients = [](c10::Device on) {
    seed(at::kCPU, 1);
    nn::Embedding embedding(10, 8);
    nn::Linear qkv(8, 24);
    embedding->to(on);
    qkv->to(on);
    const at::Tensor tokens = at::randint(10, {2, 5}, at::kLong).to(on);
    const auto parts =
        qkv->forward(embedding->forward(tokens)).view({2, 5, 3, 2, 4}).permute({2, 0, 3, 1, 4}).unbind();
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    const at::Tensor scores = mixed.transpose(1, 2).reshape({10, 8});
    at::cross_entropy_loss(scores, tokens.view(-1) % 8).backward();
    return std::pair(embedding->weight.grad().cpu(), qkv->weight.grad().cpu());
  };
  const auto expected = gradients(at::kCPU), found = gradients(fake_device(0));
  CHECK(at::allclose(found.first, expected.first, 1e-4, 1e-6));
  CHECK(at::allclose(found.second, expected.second, 1e-4, 1e-6));
  const at::Tensor query = at::randn({1, 1, 3, 4}, at::device(fake_device(0)));
  seed(fake_device(0), 1);
  const at::Tensor once = at::scaled_dot_product_attention(query, query, query, {}, 0.5);
  CHECK_FALSE(once.cpu().equal(at::scaled_dot_product_attention(query, query, query, {}, 0.5).cpu()));
}

TEST_CASE_METHOD(TwoFakeDevices,
                 "Scaling of losses and fused optimizers work, and these leave versions alone") {
  const auto on = at::device(fake_device(0)).dtype(at::kFloat);
  const at::Tensor p = at::ones({4}, on), g = at::full({4}, 8.f, on), m = at::zeros({4}, on);
  const at::Tensor v = at::zeros({4}, on), steps = at::ones({}, on);
  at::Tensor found = at::zeros({1}, on);
  const auto version = p._version();
  at::_fused_sgd_({p}, {g}, {m}, 0, 0.9, 0.5, 0, false, false, true, at::full({}, 2.f, on), found);
  CHECK(p.cpu().equal(at::full({4}, -1.f)));
  at::_fused_adamw_({p}, {g}, {m}, {v}, {}, {steps}, 0.1, 0.9, 0.99, 0, 1e-8, false, false, {}, {});
  at::_fused_adam_({p}, {g}, {m}, {v}, {}, {steps}, 0.1, 0.9, 0.99, 0, 1e-8, false, false, {}, {});
  CHECK(p._version() == version);
  at::_foreach_add_({p}, 1);
  CHECK(p._version() == version + 1);
  const at::Tensor leaf = at::ones({4}, on).requires_grad_();
  const auto leaf_version = leaf._version();
  {
    const at::NoGradGuard no_grad;
    at::_foreach_add_({leaf}, 1);
  }
  CHECK(leaf._version() == leaf_version + 1);
  at::_foreach_mul_(std::vector{p}, std::vector{at::ones({4}, on)});
  CHECK(p._version() == version + 2);

  at::_amp_foreach_non_finite_check_and_unscale_({g, m}, found, at::full({1}, 0.5f, on));
  CHECK(g[0].item<float>() == 2);  // the optimizer has unscaled it before
  CHECK(found.item<float>() == 0);
  g.fill_(std::numeric_limits<float>::infinity());
  at::_amp_foreach_non_finite_check_and_unscale_({g}, found, at::full({1}, 0.5f, on));
  CHECK(found.item<float>() == 1);
  const at::Tensor before = p.clone();
  at::_fused_adam_({p}, {g}, {m}, {v}, {}, {steps}, 0.1, 0.9, 0.99, 0, 1e-8, false, false, {}, found);
  CHECK(p.equal(before));
  at::Tensor scale = at::full({1}, 16.f, on), growth = at::zeros({1}, on.dtype(at::kInt));
  at::_amp_update_scale_(scale, growth, found, 2, 0.5, 10);
  CHECK(scale.item<float>() == 8);
}

TEST_CASE_METHOD(TwoFakeDevices, "Operators that write through arguments are seen to do so") {
  nn::BatchNorm1d norm(4);
  norm->to(device);
  const at::Tensor input = at::randn({8, 4}, at::device(device));
  wait_for_all();
  norm->forward(input);
  const c10::StreamGuard in(side_stream());
  CHECK_THROWS_AS(norm->running_mean + 1, FakeDeviceRace);
  CHECK((norm->weight + 1).defined());
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "The parts of synchronised batch normalisation give what the whole gives") {
  const at::Tensor input = at::randn({6, 3, 4, 4}), grad = at::randn({6, 3, 4, 4});
  const at::Tensor weight = at::randn({3}), bias = at::randn({3});
  at::Tensor running_mean = at::zeros({3}), running_var = at::ones({3});
  const auto [expected, mean, invstd] =
      at::native_batch_norm(input, weight, bias, running_mean, running_var, true, 0.1, 1e-5);
  const auto [grad_input, grad_weight, grad_bias] = at::native_batch_norm_backward(
      grad, input, weight, {}, {}, mean, invstd, true, 1e-5, {true, true, true});

  const auto here = [&](const at::Tensor& tensor) { return tensor.to(device); };
  std::vector<at::Tensor> means, invstds;
  const std::vector<at::Tensor> shares{here(input.slice(0, 0, 2)), here(input.slice(0, 2, 6))};
  for (const at::Tensor& share : shares) {
    const auto [share_mean, share_invstd] = at::batch_norm_stats(share, 1e-5);
    means.push_back(share_mean);
    invstds.push_back(share_invstd);
  }
  const at::Tensor own_mean = here(at::zeros({3})), own_var = here(at::ones({3}));
  const at::Tensor counts = here(at::tensor({32, 64}, at::kFloat));
  const auto [all_mean, all_invstd] = at::batch_norm_gather_stats_with_counts(
      shares[0], at::stack(means), at::stack(invstds), own_mean, own_var, 0.1, 1e-5, counts);
  const auto same = [](const at::Tensor& found, const at::Tensor& wanted) {
    return at::allclose(found.cpu(), wanted, 1e-4, 1e-5);
  };
  CHECK(same(all_mean, mean));
  CHECK(same(all_invstd, invstd));
  CHECK(same(own_mean, running_mean));
  CHECK(same(own_var, running_var));
  CHECK(same(at::batch_norm_elemt(here(input), here(weight), here(bias), all_mean, all_invstd, 1e-5),
             expected));
  const auto [sum_dy, sum_dy_xmu, found_weight, found_bias] = at::batch_norm_backward_reduce(
      here(grad), here(input), all_mean, all_invstd, here(weight), true, true, true);
  CHECK(same(found_weight, grad_weight));
  CHECK(same(found_bias, grad_bias));
  CHECK(same(at::batch_norm_backward_elemt(here(grad), here(input), all_mean, all_invstd, here(weight),
                                           sum_dy, sum_dy_xmu, counts.to(at::kInt)),
             grad_input));
}
