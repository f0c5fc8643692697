#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>

#include "fake_run.h"
#include "fixture.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

/// `ddp` with a device for each rank, over NCCL's table.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;
using Fixture = test::TwoFakeDevices;

/// The parameters after 20 steps, on CPUs or on a fake device of each rank.
at::Tensor trained_on(bool device, const std::function<void(Options&)>& change) {
  MpiWorld& world = test_world();
  Options options = test::short_run("ddp", std::to_string(world.size()));
  change(options);
  ToyData data(24 * world.size(), 6);
  Regression model;
  if (!device) {
    Trainer(world, options).fit(model, data);
    return test::flat_parameters(model);
  }
  HostCommunicator ranks = test::host_communicator();
  test::FakeAccelerator accelerator(test::kFakeDevices, ranks);
  Trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator).fit(model, data);
  return test::flat_parameters(model).cpu();
}

TEST_CASE_METHOD(Fixture, "ddp over devices gives what ddp over CPUs gives") {
  const std::vector<std::function<void(Options&)>> variants{
      [](Options&) {}, [](Options& o) { o.trainer.accumulate_grad_batches = 3; },
      [](Options& o) { o.trainer.gradient_clip_val = 0.05; },
      [](Options& o) {
        o.strategy.args = {{"first_bucket_bytes", "1"}, {"bucket_bytes", "1"}};
      },
      [](Options& o) {
        o.strategy.args = {{"shard_optimizer", "false"}};
      }};
  for (const auto& variant : variants) {
    CAPTURE(&variant - variants.data());
    CHECK(at::allclose(trained_on(true, variant), trained_on(false, variant), 1e-6, 1e-7));
  }
}

}  // namespace
}  // namespace cxtrain
