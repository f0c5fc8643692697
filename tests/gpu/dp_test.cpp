#include <ATen/ops/allclose.h>
#include <c10/cuda/CUDAFunctions.h>

#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/precision/policy.h"
#include "gpu/gpu_support.h"
#include "strategies/dp/batch_chunks.h"
#include "strategies/dp/replica_exchange.h"
#include "support/toy_models.h"

namespace cxtrain {
namespace {

using test::Regression;

/// What `dp` has of a run with GPUs.
struct SoloWorldContext {
  SoloWorld world;
  Plan plan;
  Options options;
  PrecisionPolicy precision = precision_policy("32-true");
  StrategyContext context{.world = world,
                          .plan = plan,
                          .options = options,
                          .precision = precision,
                          .accelerator = &open_accelerator()};
};

/// The gradients of a batch on replicas on these devices, after one that changed the primary's parameters.
void compare_with_one_model(const std::vector<at::Device>& devices) {
  std::vector<std::unique_ptr<Regression>> models;
  std::vector<Trainable*> placed;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    models.push_back(std::make_unique<Regression>());
    placed.push_back(&trainable(*models.back()));
  }
  std::vector<Replica> replicas = place_replicas(placed, devices, precision_policy("32-true"));
  ReplicaThreads threads(devices);
  SoloWorldContext context;
  const std::unique_ptr<ReplicaExchange> exchange = make_replica_exchange(replicas, threads, context.context);
  Regression reference;
  {
    const at::NoGradGuard no_grad;
    for (NamedTensor& parameter : replicas[0].parameters) parameter.tensor.add_(0.25);
    for (at::Tensor& parameter : reference.parameters()) parameter.add_(0.25);
  }
  exchange->send_parameters();
  Batch batch;
  batch.tensors = {at::randn({24, 6}), at::randn({24, 2})};
  batch.size = 24;
  const std::vector<Batch> chunks = chunk_batch(batch, devices.size());
  threads.run(chunks.size(), [&](std::size_t i) {
    Batch here = chunks[i];
    for (at::Tensor& tensor : here.tensors) tensor = tensor.to(devices[i]);
    models[i]->loss(here).mul(static_cast<double>(here.size) / 24).backward();
  });
  exchange->sum_gradients();
  reference.loss(batch).backward();
  const auto expected = reference.all_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(at::allclose(replicas[0].parameters[i].tensor.grad().cpu(), expected[i].tensor.grad(), 1e-4, 1e-5));
    for (std::size_t r = 1; r < replicas.size(); ++r) {
      CHECK_FALSE(replicas[r].parameters[i].tensor.grad().defined());
    }
  }
}

TEST_CASE("dp's replicas on one GPU share its parameters and sum their gradients", "[gpu]") {
  compare_with_one_model({test::kGpu, test::kGpu});
}

TEST_CASE("dp's replicas on a GPU each get parameters and give up gradients by NCCL", "[gpu]") {
  std::vector<at::Device> devices;
  for (c10::DeviceIndex i = 0; i < c10::cuda::device_count(); ++i) devices.emplace_back(at::kCUDA, i);
  if (devices.size() == 1) test::skip("one GPU: NCCL runs, but has nobody to talk to");
  compare_with_one_model(devices);
}

}  // namespace
}  // namespace cxtrain
