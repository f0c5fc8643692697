#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <future>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cuda/stream_work.h"
#include "cxtrain/reduce/reducer.h"
#include "fake_run.h"
#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/fake_nccl.h"

/// Collectives between devices: their order among the streams, and that none lasts for ever.
namespace cxtrain {
namespace {

using test::contains;
using test::fake_device;
using Fixture = test::TwoFakeDevices;

std::vector<std::vector<at::Tensor>> ones_on_each(int devices) {
  std::vector<std::vector<at::Tensor>> tensors;
  for (int i = 0; i < devices; ++i) tensors.push_back({at::ones({8}, fake_device(i))});
  return tensors;
}

TEST_CASE_METHOD(Fixture, "a collective that never ends on the devices is found by the watchdog") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const std::vector<c10::Device> devices{fake_device(0), fake_device(1)};
  try {
    const auto peers = accelerator.connect_peers(world, devices);
    const auto tensors = ones_on_each(2);
    peers->reduce(tensors);
    world.set_timeout(0.5, {});
    accelerator.nccl.hang_next();
    peers->broadcast(tensors);
    CHECK(world.alarms.first(Watchdog::Cause::deadline) == "ncclBroadcast");
    throw TrainingError("the way out");  // on which the communicators are given up
  } catch (const TrainingError&) {
  }
  CHECK(accelerator.nccl.count("comm_abort") == 2);
}

TEST_CASE_METHOD(Fixture, "operations of several devices are watched, each by events of its own device") {
  test::ScriptedWorld world(0, 1);
  StreamWork work(world.watchdog(), [] { return std::string(); });
  for (int round = 0; round < 3; ++round) {
    for (const int i : {0, 1, 2}) work.submitted("a sum", current_stream(fake_device(i)));
    wait_for_all();
    CHECK(work.look().operation == nullptr);  // all have ended, and their events may serve again
  }
}

TEST_CASE_METHOD(Fixture, "collectives that end keep the watchdog silent, however many there are") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const std::vector<c10::Device> devices{fake_device(0), fake_device(1), fake_device(2)};
  const auto peers = accelerator.connect_peers(world, devices);
  const auto tensors = ones_on_each(3);
  peers->broadcast(tensors);
  peers->reduce(tensors);
  CHECK(tensors[0][0].cpu().equal(at::full({8}, 3.f)));
  world.set_timeout(0.2, {});
  std::promise<void> never;
  never.get_future().wait_for(std::chrono::milliseconds(600));
  CHECK(world.alarms.count() == 0);
}

TEST_CASE_METHOD(Fixture,
                 "an error that NCCL finds while nobody calls it reaches the watchdog within a second") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const auto communicator = accelerator.connect(world, fake_device(0));
  accelerator.nccl.report_async(ncclRemoteError);
  CHECK_THAT(world.alarms.first(Watchdog::Cause::error), contains("rank 0 of 1 on node7"));
  accelerator.nccl.report_async(ncclSuccess);
}

TEST_CASE_METHOD(Fixture,
                 "a communicator has sent messages of the buckets' sizes before anybody else uses it") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const auto communicator = accelerator.connect(world, fake_device(0));
  CHECK(accelerator.nccl.count("all_reduce " + std::to_string((1 << 20) / 4)) == 1);
  CHECK(accelerator.nccl.count("all_reduce " + std::to_string((25 << 20) / 4)) == 1);
  CHECK(accelerator.nccl.count("broadcast") == 2);
}

TEST_CASE_METHOD(Fixture, "a tensor that is let go of while it travels keeps its memory until the join") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const auto communicator = accelerator.connect(world, device);
  at::Tensor sent = at::ones({8}, device);
  communicator->all_reduce(sent, ReduceOp::sum);
  sent.reset();
  CHECK(test::fake_races().empty());
  communicator->join();
}

/// Two parameters whose gradients are made on a stream each.
struct TwoStreams {
  std::vector<NamedTensor> parameters;
  c10::Stream side;

  explicit TwoStreams(const c10::Stream& other) : side(other) {
    for (const char* name : {"a", "b"})
      parameters.push_back({name, at::full({16}, 2.f, fake_device(0)).set_requires_grad(true)});
  }
  void backward() const {
    const at::Tensor a = parameters[0].tensor.mul(3).sum();
    at::Tensor b;
    {
      const c10::StreamGuard in(side);
      b = parameters[1].tensor.mul(5).sum();
    }
    Fixture::wait(c10::impl::VirtualGuardImpl(side.device_type()).getStream(side.device()), side);
    (a + b).backward();
  }
};

TEST_CASE_METHOD(
    Fixture, "a bucket waits for every stream that made a gradient of it, and who reads it for the bucket") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const auto communicator = accelerator.connect(world, device);
  const TwoStreams model(side_stream());
  wait(model.side, main);  // for the parameters' first values
  for (const bool overlap : {false, true}) {
    for (const std::optional<at::ScalarType> wire :
         {std::optional<at::ScalarType>(), std::optional(at::kHalf)}) {
      CAPTURE(overlap, wire.has_value());
      Reducer reducer(model.parameters, *communicator, world, {.overlap = overlap, .wire_dtype = wire});
      for (int step = 0; step < 3; ++step) {
        reducer.begin_backward(true);
        reducer.zero_gradients();
        wait(model.side, main);
        model.backward();
        reducer.finish();
        CHECK(model.parameters[0].tensor.grad().cpu().equal(at::full({16}, 3.f)));
        CHECK(model.parameters[1].tensor.grad().cpu().equal(at::full({16}, 5.f)));
      }
    }
  }
}

TEST_CASE_METHOD(Fixture, "micro-batches add up on a device before they go into the bucket, in one copy") {
  test::ScriptedWorld world(0, 1);
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  const auto communicator = accelerator.connect(world, device);
  std::vector<NamedTensor> parameters;
  for (const char* name : {"a", "b", "c"})
    parameters.push_back({name, at::full({16}, 2.f, device).set_requires_grad(true)});
  Reducer reducer(parameters, *communicator, world, {.overlap = true});
  for (int step = 0; step < 2; ++step) {
    for (const int micro : {0, 1, 2}) {
      reducer.begin_backward(micro == 2);
      if (micro == 0) reducer.zero_gradients();
      (parameters[0].tensor.sum() + 2 * parameters[micro].tensor.sum()).backward();
    }
    reducer.finish();
    CHECK(parameters[0].tensor.grad().cpu().equal(at::full({16}, 5.f)));
    CHECK(parameters[1].tensor.grad().cpu().equal(at::full({16}, 2.f)));
    CHECK(parameters[2].tensor.grad().cpu().equal(at::full({16}, 2.f)));
  }
}

}  // namespace
}  // namespace cxtrain
