#include <ATen/ops/allclose.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include "fake_run.h"
#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"
#include "support/normalised_model.h"
#include "support/split_model.h"

/// `ddp` with a device for each rank, or two, over NCCL's table, or with one device for all of them.
namespace cxtrain {
namespace {

using test::Normalised;
using test::Regression;
using test::SplitRegression;
using test::ToyData;
using Fixture = test::TwoFakeDevices;

using Change = std::function<void(Options&)>;

/// The parameters after 20 steps of one process on the CPU, with all ranks' samples in each of its batches.
template <class Model = Regression>
at::Tensor trained_alone(const Change& change = [](Options&) {}) {
  const int ranks = test_world().size();
  SoloWorld world;
  Options options = test::short_run("single");
  change(options);
  ToyData data(24 * ranks, 6 * ranks);
  Model model;
  Trainer(world, options).fit(model, data);
  return test::flat_parameters(model);
}

/// The same of all ranks, on CPUs or on fake devices.
enum class Where { cpu, own_device, two_devices, shared_device };
template <class Model = Regression>
at::Tensor trained_on(
    Where where, const Change& change = [](Options&) {}) {
  MpiWorld& world = test_world();
  const int devices_per_rank = where == Where::two_devices ? 2 : 1;
  Options options = test::short_run("ddp", std::to_string(world.size() * devices_per_rank));
  options.trainer.devices_per_rank = devices_per_rank;
  change(options);
  ToyData data(24 * world.size(), 6);
  Model model;
  if (where == Where::cpu) {
    Trainer(world, options).fit(model, data);
    return test::flat_parameters(model);
  }
  HostCommunicator ranks = test::host_communicator();
  test::FakeNcclAccelerator accelerator(test::kFakeDevices, ranks);
  accelerator.ranks_share_devices = where == Where::shared_device;
  Trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator).fit(model, data);
  const bool staged = world.size() > 1 && where == Where::shared_device;
  CHECK((accelerator.nccl.count("all_reduce") > 0) == (world.size() > 1 && !staged));
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : model.parameters())
    parts.push_back(parameter.detach().cpu().reshape({-1}).to(at::kDouble));
  return at::cat(parts);
}

TEST_CASE_METHOD(Fixture, "ddp over devices gives what ddp over CPUs gives") {
  const std::vector<Change> variants{[](Options&) {},
                                     [](Options& o) { o.trainer.accumulate_grad_batches = 3; },
                                     [](Options& o) { o.trainer.gradient_clip_val = 0.05; },
                                     [](Options& o) {
                                       o.strategy.args = {{"first_bucket_bytes", "1"}, {"bucket_bytes", "1"}};
                                     },
                                     [](Options& o) {
                                       o.strategy.args = {{"shard_optimizer", "false"}};
                                     }};
  for (const Change& variant : variants) {
    CAPTURE(&variant - variants.data());
    CHECK(at::allclose(trained_on(Where::own_device, variant), trained_on(Where::cpu, variant), 1e-6, 1e-7));
  }
}

TEST_CASE_METHOD(Fixture, "ddp over ranks that share a device gives what ddp over CPUs gives") {
  for (const char* shard : {"false", "auto"}) {
    const auto variant = [&](Options& o) { o.strategy.args["shard_optimizer"] = shard; };
    CHECK(
        at::allclose(trained_on(Where::shared_device, variant), trained_on(Where::cpu, variant), 1e-6, 1e-7));
  }
}

TEST_CASE_METHOD(Fixture, "ddp with blocks on two devices of a rank gives what ddp over CPUs gives") {
  CHECK(at::allclose(trained_on(Where::two_devices), trained_on(Where::cpu), 1e-6, 1e-7));
  const auto recompute = [](Options& options) { options.trainer.recompute_blocks = true; };
  CHECK(at::allclose(trained_on(Where::two_devices, recompute), trained_on(Where::cpu), 1e-6, 1e-7));
}

TEST_CASE_METHOD(Fixture, "zero over devices gives what zero over CPUs gives") {
  const std::vector<Change> variants{[](Options&) {},
                                     [](Options& o) { o.trainer.accumulate_grad_batches = 3; },
                                     [](Options& o) { o.trainer.gradient_clip_val = 0.05; },
                                     [](Options& o) { o.strategy.args["bucket_bytes"] = "1"; },
                                     [](Options& o) { o.strategy.args["overlap"] = "false"; }};
  // With one rank stage 3 divides nothing; with several ranks it gathers blocks on devices.
  for (const char* stage : {"1", "2", "3"}) {
    for (const Change& variant : variants) {
      CAPTURE(stage, &variant - variants.data());
      const auto zero = [&](Options& o) {
        o.trainer.strategy = "zero";
        o.strategy.args["stage"] = stage;
        if (std::string(stage) == "3") o.strategy.args["parameters"] = "all";
        variant(o);
      };
      const at::Tensor expected = trained_on(Where::cpu, zero);
      CHECK(at::allclose(trained_on(Where::own_device, zero), expected, 1e-6, 1e-7));
      CHECK(at::allclose(trained_on(Where::shared_device, zero), expected, 1e-6, 1e-7));
    }
  }
}

TEST_CASE_METHOD(Fixture, "a pipeline over devices gives what a pipeline over CPUs gives") {
  const auto pipeline = [](Options& o) {
    o.trainer.strategy = "pipeline";
    o.trainer.accumulate_grad_batches = 2;
    o.trainer.gradient_clip_val = 0.05;                             // stages agree on norms
    if (test_world().size() == 4) o.strategy.args["stages"] = "2";  // the model has three blocks
  };
  const at::Tensor expected = trained_on(Where::cpu, pipeline);
  CHECK(at::allclose(trained_on(Where::own_device, pipeline), expected, 1e-6, 1e-7));
  CHECK(at::allclose(trained_on(Where::shared_device, pipeline), expected, 1e-6, 1e-7));
}

TEST_CASE_METHOD(Fixture, "ddp over ranks with a model on two devices each trains as one process does") {
  CHECK(at::allclose(trained_on<SplitRegression>(Where::two_devices), trained_alone(), 1e-5, 1e-7));
}

TEST_CASE_METHOD(Fixture, "ddp with synchronised batch norm on devices trains as one process does") {
  const Change sync = [](Options& options) { options.trainer.sync_batchnorm = true; };
  const at::Tensor alone = trained_alone<Normalised>(sync);
  CHECK(at::allclose(trained_on<Normalised>(Where::own_device, sync), alone, 1e-4, 1e-5));
  CHECK(at::allclose(trained_on<Normalised>(Where::shared_device, sync), alone, 1e-4, 1e-5));
  if (test_world().size() > 1)
    CHECK_FALSE(at::allclose(trained_on<Normalised>(Where::own_device), alone, 1e-4, 1e-5));
}

/// Writes down what dropout keeps on each of its two devices, in its last step.
struct SplitDropping : SplitRegression {
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    masks.clear();
    for (int part = 0; part < 2; ++part) {
      const at::Tensor ones = at::ones({64}, batch[0].options().device(part_device(part)));
      masks.push_back(at::dropout(ones, 0.5, /*train=*/true).cpu());
    }
    return SplitRegression::training_step(batch, idx);
  }
  static inline std::vector<at::Tensor> masks;
};

TEST_CASE_METHOD(Fixture, "each of a rank's devices drops other units, and other ones than other ranks'") {
  trained_on<SplitDropping>(Where::two_devices, [](Options& options) { options.trainer.max_steps = 2; });
  const at::Tensor own = at::stack(SplitDropping::masks);
  HostCommunicator ranks = test::host_communicator();
  const at::Tensor all = at::empty({ranks.size() * own.numel()});
  ranks.all_gather(all, own.view({-1}));
  const std::vector<at::Tensor> masks = all.view({-1, 64}).unbind();
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      CAPTURE(i, other);
      CHECK_FALSE(at::equal(masks[i], masks[other]));
    }
  }
}

}  // namespace
}  // namespace cxtrain
