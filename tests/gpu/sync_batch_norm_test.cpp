#include "cxtrain/reduce/sync_batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <torch/nn/modules/batchnorm.h>

#include "cxtrain/accelerator/make_communicator.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "gpu/gpu_program.h"
#include "gpu/gpu_support.h"
#include "support/run_program.h"

namespace cxtrain {
namespace {

constexpr const char* kOneOfTwo = "[.one_of_two_ranks]";

bool near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), tolerance, tolerance);
}

/// Two training steps of batch norm on this rank's part of each batch, against LibTorch's on the whole batch,
/// both on the GPU. Ranks have 5 and 6 samples.
void compare_with_native(Communicator& between, at::Device device, at::ScalarType dtype) {
  const double tolerance = dtype == at::kHalf ? 2e-2 : 1e-4;
  constexpr std::int64_t kChannels = 7;
  const std::int64_t samples = between.size() == 1 ? 5 : 11, first = between.rank() == 0 ? 0 : 5,
                     count = between.rank() == 0 ? 5 : 6;
  const auto mine_of = [&](const at::Tensor& whole) { return whole.narrow(0, first, count); };
  at::manual_seed(5);
  torch::nn::BatchNorm2d whole(kChannels), mine(kChannels);
  {
    const at::NoGradGuard no_grad;
    whole->weight.copy_(at::rand({kChannels}).add(0.5));
    mine->weight.copy_(whole->weight);
  }
  whole->to(device);
  mine->to(device);
  SyncBatchNorm sync(between);
  for (int step = 0; step < 2; ++step) {
    const at::Tensor input = at::randn({samples, kChannels, 6, 4}).mul(2).add(3).to(device, dtype);
    const at::Tensor goal = at::randn({samples, kChannels, 6, 4}).to(device, dtype);
    const at::Tensor all = input.clone().requires_grad_(), part = mine_of(input).clone().requires_grad_();
    const at::Tensor expected = whole->forward(all);
    expected.backward(goal);
    at::Tensor output;
    {
      const SyncBatchNorm::Scope scope(sync);
      output = mine->forward(part);
    }
    output.backward(mine_of(goal).contiguous());
    CHECK(output.scalar_type() == dtype);
    CHECK(near(output, mine_of(expected), tolerance));
    CHECK(near(part.grad(), mine_of(all.grad()), tolerance));
  }
  const at::Tensor gradients = at::cat({mine->weight.grad(), mine->bias.grad()}).detach().clone();
  between.all_reduce(gradients, ReduceOp::sum);
  between.join();
  CHECK(near(gradients, at::cat({whole->weight.grad(), whole->bias.grad()}), tolerance * 10));
  CHECK(near(mine->running_mean, whole->running_mean, tolerance));
  CHECK(near(mine->running_var, whole->running_var, tolerance));
}

TEST_CASE("one of two ranks: batch norm over both", kOneOfTwo) {
  const std::unique_ptr<MpiWorld> world = MpiWorld::start();
  REQUIRE(world->size() == 2);
  const at::Device device(at::kCUDA,
                          static_cast<c10::DeviceIndex>(world->rank() % c10::cuda::device_count()));
  c10::cuda::set_device(device.index());
  const auto between = make_communicator(*world, {&device, 1}, &open_accelerator());
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) compare_with_native(*between, device, dtype);
}

/// Whether that case passes on two ranks.
void check_two_ranks() {
  const test::ProgramResult run = test::run_command(
      test::mpirun() + " -np 2 --oversubscribe --bind-to none " + test::own_path() + " " + kOneOfTwo);
  CAPTURE(run.output);
  CHECK(run.status == 0);
  CHECK_THAT(run.output, test::contains("All tests passed"));
}

TEST_CASE("batch norm of a lone rank is LibTorch's on a GPU", "[gpu]") {
  SoloWorld world;
  const auto none = make_communicator(world, {&test::kGpu, 1}, &open_accelerator());
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf}) compare_with_native(*none, test::kGpu, dtype);
}

TEST_CASE("batch norm over two ranks that share a GPU is LibTorch's over the whole batch", "[gpu]") {
  if (!test::has_mpirun()) return;
  const test::VisibleGpus one(1);
  check_two_ranks();
}

TEST_CASE("batch norm over two ranks with a GPU each is LibTorch's over the whole batch", "[gpu]") {
  if (!test::has_mpirun() || !test::has_two_gpus()) return;
  check_two_ranks();
}

}  // namespace
}  // namespace cxtrain
