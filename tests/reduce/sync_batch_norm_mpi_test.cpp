#include "cxtrain/reduce/sync_batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/batchnorm.h>

#include "cxtrain/accelerator/make_communicator.h"
#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

std::unique_ptr<Communicator> communicator() {
  const at::Device cpu(at::kCPU);
  return make_communicator(test_world(), {&cpu, 1}, nullptr);
}

/// This rank's samples of a batch in which rank r has r + 2.
at::Tensor shard(const at::Tensor& whole) {
  const std::int64_t rank = test_world().rank();
  return whole.narrow(0, rank * (rank + 3) / 2, rank + 2);
}
std::int64_t samples() {
  const std::int64_t ranks = test_world().size();
  return ranks * (ranks + 3) / 2;
}

at::Tensor sum_over_ranks(at::Tensor tensor, Communicator& between) {
  tensor = tensor.clone();
  between.all_reduce(tensor, ReduceOp::sum);
  between.join();
  return tensor;
}

bool close(const at::Tensor& a, const at::Tensor& b) {
  const double tolerance = a.scalar_type() == at::kDouble ? 1e-9 : 1e-4;
  return at::allclose(a, b, tolerance, tolerance);
}

/// Compares two training steps of `Norm` on shards with two on the whole batch.
template <class Norm>
void compare_with_whole(at::IntArrayRef sample_shape, at::ScalarType dtype) {
  std::vector<std::int64_t> shape{samples()};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  at::manual_seed(5);
  Norm whole(shape[1]), mine(shape[1]);
  whole->to(dtype);
  mine->to(dtype);
  {
    const at::NoGradGuard no_grad;
    whole->weight.copy_(at::rand({shape[1]}).add(0.5));
    mine->weight.copy_(whole->weight);
  }
  const auto between = communicator();
  SyncBatchNorm sync(*between);
  for (int step = 0; step < 2; ++step) {
    // Far from zero, where a difference of squares would lose its digits.
    const at::Tensor input = at::randn(shape).mul(2).add(30).to(dtype), goal = at::randn(shape).to(dtype);
    const at::Tensor all = input.clone().requires_grad_(), part = shard(input).clone().requires_grad_();
    const at::Tensor expected = whole->forward(all);
    expected.mul(goal).sum().backward();
    at::Tensor output;
    {
      const SyncBatchNorm::Scope scope(sync);
      output = mine->forward(part);
    }
    output.mul(shard(goal)).sum().backward();
    CHECK(close(output, shard(expected)));
    CHECK(close(part.grad(), shard(all.grad())));
  }
  CHECK(close(sum_over_ranks(mine->weight.grad(), *between), whole->weight.grad()));
  CHECK(close(sum_over_ranks(mine->bias.grad(), *between), whole->bias.grad()));
  CHECK(close(mine->running_mean, whole->running_mean));
  CHECK(close(mine->running_var, whole->running_var));
  const at::Tensor first = mine->running_var.detach().clone();
  between->broadcast(first, 0);
  CHECK(at::equal(first, mine->running_var));  // not merely close: the same bits on all ranks
}

TEST_CASE("batch norm over the ranks' samples equals batch norm over one batch with all of them") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  compare_with_whole<torch::nn::BatchNorm1d>({3}, dtype);
  compare_with_whole<torch::nn::BatchNorm1d>({3, 5}, dtype);
  compare_with_whole<torch::nn::BatchNorm2d>({2, 4, 3}, dtype);
  compare_with_whole<torch::nn::BatchNorm3d>({2, 2, 3, 2}, dtype);
}

TEST_CASE("the functional form, without weights and running statistics, and a 16-bit input") {
  const auto between = communicator();
  SyncBatchNorm sync(*between);
  at::manual_seed(6);
  const at::Tensor input = at::randn({samples(), 4, 3});
  const auto norm = [](const at::Tensor& x, const at::Tensor& weight) {
    return at::batch_norm(x, weight, weight, {}, {}, /*training=*/true, 0.1, 1e-5, false);
  };
  const SyncBatchNorm::Scope scope(sync);
  const std::vector<std::int64_t> dims{0, 2};
  const at::Tensor mean = input.mean(dims, /*keepdim=*/true);
  const at::Tensor variance = input.sub(mean).square().mean(dims, /*keepdim=*/true);
  const at::Tensor expected = input.sub(mean).div(variance.add(1e-5).sqrt());
  CHECK(close(norm(shard(input), {}), shard(expected)));
  // What autocast makes of it: 16-bit activations, 32-bit weights.
  const at::Tensor weight = at::rand({4});
  const at::Tensor mixed = norm(shard(input).to(at::kBFloat16), weight);
  CHECK(mixed.scalar_type() == at::kBFloat16);
  CHECK(at::allclose(mixed.to(at::kFloat), shard(expected.mul(weight.view({4, 1})).add(weight.view({4, 1}))),
                     0.05, 0.05));
}

TEST_CASE("outside a scope, in evaluation and in instance norm nothing is sent") {
  const auto between = communicator();
  at::manual_seed(7);
  const at::Tensor input = at::randn({6, 3, 4}), mean = at::randn({3}), variance = at::rand({3});
  const auto results = [&](bool training) {
    at::Tensor m = mean.clone(), v = variance.clone();
    return std::vector{at::batch_norm(input, {}, {}, m, v, training, 0.1, 1e-5, false),
                       at::instance_norm(input, {}, {}, {}, {}, true, 0.1, 1e-5, false), m, v};
  };
  const auto plain = results(true), evaluated = results(false);
  SyncBatchNorm sync(*between);
  if (test_world().rank() > 0) return;  // the first rank alone: a message would never be answered
  const auto outside = results(true);
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(at::equal(outside[i], plain[i]));
  const SyncBatchNorm::Scope scope(sync);
  const auto inside = results(false);
  for (std::size_t i = 0; i < evaluated.size(); ++i) CHECK(at::equal(inside[i], evaluated[i]));
}

}  // namespace
}  // namespace cxtrain
