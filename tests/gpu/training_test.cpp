#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include <cmath>
#include <limits>

#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/optim/optimizer.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/precision/grad_scaler.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/reduce/reducer.h"
#include "gpu/gpu_support.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

using test::kGpu;
using test::SmallNet;

/// The loss after 60 steps of SGD under a precision.
double train(const std::string& precision) {
  const PrecisionPolicy policy = precision_policy(precision);
  SmallNet net(kGpu);
  const auto optimizer = make_optimizer({.optimizer = Sgd{.lr = 0.2}}, net.parameters);
  GradScaler scaler(kGpu);
  at::Tensor loss;
  for (int step = 0; step < 60; ++step) {
    {
      const AutocastGuard autocast(at::kCUDA, policy.autocast_dtype);
      if (policy.autocast_dtype) CHECK(net.logits().scalar_type() == *policy.autocast_dtype);
      loss = net.loss();
    }
    std::vector<at::Tensor> gradients;
    for (const NamedTensor& parameter : net.parameters) parameter.tensor.mutable_grad().reset();
    (policy.scale_gradients ? scaler.scale(loss) : loss).backward();
    for (const NamedTensor& parameter : net.parameters) gradients.push_back(parameter.tensor.grad());
    Optimizer::StepInputs inputs{.gradients = gradients};
    at::Tensor found = scaler.none_found();
    if (policy.scale_gradients) {
      scaler.unscale(gradients, found);
      scaler.note(found);
      inputs.found_inf = &found;
    }
    optimizer->step(inputs);
    if (policy.scale_gradients) scaler.update();
  }
  return loss.item<double>();
}

TEST_CASE("mixed precision learns what float32 learns", "[gpu]") {
  const double start = SmallNet(kGpu).loss().item<double>();
  const double full = train("32-true");
  CHECK(full < 0.6 * start);
  for (const std::string precision : {"16-mixed", "bf16-mixed"}) {
    CAPTURE(precision, start, full);
    CHECK(std::abs(train(precision) - full) < 0.05 * full);
  }
}

TEST_CASE("an overflow on the GPU skips the step and halves the scale", "[gpu]") {
  const std::vector<NamedTensor> parameters{{"w", at::full({100}, 3.0, kGpu).set_requires_grad(true)}};
  const auto optimizer = make_optimizer({.optimizer = AdamW{.lr = 0.1}}, parameters);
  GradScaler scaler(kGpu);
  const double scale = scaler.current_scale();
  const auto step = [&](double gradient) {
    const std::vector<at::Tensor> gradients{at::full({100}, gradient, kGpu)};
    at::Tensor found = scaler.none_found();
    scaler.unscale(gradients, found);
    scaler.note(found);
    optimizer->step({.gradients = gradients, .found_inf = &found});
    scaler.update();
  };
  step(std::numeric_limits<double>::infinity());
  CHECK(parameters[0].tensor.eq(3.0).all().item<bool>());
  CHECK(scaler.current_scale() == scale / 2);
  step(1.0);
  CHECK(parameters[0].tensor.lt(3.0).all().item<bool>());
  CHECK(scaler.current_scale() == scale / 2);
}

void compare_optimizer(const OptimizerConfig& config) {
  std::vector<NamedTensor> host, device;
  at::manual_seed(5);
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{7}, {130, 33}, {3, 4, 5}}) {
    const std::string name = "p" + std::to_string(host.size());
    const at::Tensor start = at::randn(shape);
    host.push_back({name, start.clone().set_requires_grad(true)});
    device.push_back({name, start.to(kGpu).set_requires_grad(true)});
  }
  const auto on_host = make_optimizer({.optimizer = config}, host);
  const auto on_device = make_optimizer({.optimizer = config}, device);
  for (int step = 0; step < 10; ++step) {
    std::vector<at::Tensor> of_host, of_device;
    for (const NamedTensor& parameter : host) {
      of_host.push_back(at::randn(parameter.tensor.sizes()));
      of_device.push_back(of_host.back().to(kGpu));
    }
    on_host->step({.gradients = of_host});
    on_device->step({.gradients = of_device});
  }
  for (std::size_t i = 0; i < host.size(); ++i) {
    CHECK(at::allclose(device[i].tensor.cpu(), host[i].tensor, 1e-4, 1e-5));
  }
}

TEST_CASE("the fused optimizers take the same steps on GPU and CPU", "[gpu]") {
  compare_optimizer(Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  compare_optimizer(Adam{.lr = 0.01, .weight_decay = 0.01});
  compare_optimizer(AdamW{.lr = 0.01, .amsgrad = true});
}

/// Gradients of three synchronised steps through buckets, the last ones on the CPU.
std::vector<at::Tensor> bucketed_gradients(at::Device device, Communicator& communicator, bool overlap) {
  SoloWorld world;
  SmallNet net(device);
  Reducer reducer(
      net.parameters, communicator, world,
      {.first_bucket_bytes = 256, .bucket_bytes = 4096, .overlap = overlap, .find_unused_parameters = false});
  CHECK(reducer.bucket_count() > 2);
  for (int step = 0; step < 3; ++step) {  // the second lays the buckets out anew, the third uses them
    reducer.zero_gradients();
    for (const bool last : {false, true}) {
      reducer.begin_backward(last);
      net.loss().backward();
    }
    reducer.finish();
  }
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& parameter : net.parameters)
    gradients.push_back(parameter.tensor.grad().cpu().clone());
  return gradients;
}

TEST_CASE("gradient buckets hold the same on GPU, through NCCL beside backward, as on CPU", "[gpu]") {
  SoloCommunicator none;
  const std::vector<at::Tensor> expected = bucketed_gradients(at::kCPU, none, false);
  SoloWorld world;
  const std::unique_ptr<Communicator> made = open_accelerator().connect(world, kGpu);
  Communicator& nccl = *made;
  for (const bool overlap : {false, true}) {
    const std::vector<at::Tensor> found = bucketed_gradients(kGpu, nccl, overlap);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(i, overlap);
      CHECK(at::allclose(found[i], expected[i], 1e-3, 1e-5));
      CHECK(found[i].abs().max().item<float>() > 0);
    }
  }
}

}  // namespace
}  // namespace cxtrain
