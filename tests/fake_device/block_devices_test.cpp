#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <torch/nn/modules/linear.h>

#include <array>

#include "cxtrain/trainer/chain_module.h"
#include "fixture.h"

/// The blocks of a model on several devices of a rank.
namespace cxtrain::test {
namespace {

struct FourLayers : ChainModule {
  FourLayers() {
    at::manual_seed(8);
    for (const char* name : {"a", "b", "c", "d"})
      layers.push_back(add_block(name, torch::nn::Linear(16, 16), /*cost=*/layers.empty() ? 3 : 1));
  }
  at::Tensor outputs(const at::Tensor& inputs) {
    return run_blocks({.tensors = {inputs}, .size = inputs.size(0)}).tensor();
  }
  StepOutput training_step(const Batch&, std::int64_t) override { return StepOutput{}; }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
  std::vector<torch::nn::Linear> layers;
};

}  // namespace

TEST_CASE_METHOD(TwoFakeDevices, "Blocks of about equal cost lie on each device, and get their inputs there",
                 "[blocks]") {
  FourLayers model, whole;
  const PrecisionPolicy precision = precision_policy("32-true");
  const std::array devices{fake_device(0), fake_device(1)};
  trainable(model).place(devices, precision);
  std::vector<at::Device> found;
  for (const torch::nn::Linear& layer : model.layers) found.push_back(layer->weight.device());
  CHECK(found == std::vector<at::Device>{devices[0], devices[1], devices[1], devices[1]});

  const at::Tensor inputs = at::ones({2, 16});
  const at::Tensor outputs = model.outputs(inputs.to(devices[0])), expected = whole.outputs(inputs);
  CHECK(outputs.device() == devices[0]);
  CHECK(at::allclose(outputs.cpu(), expected, 1e-6, 1e-7));
  outputs.sum().backward();
  expected.sum().backward();
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    CHECK(at::allclose(model.layers[i]->weight.grad().cpu(), whole.layers[i]->weight.grad(), 1e-6, 1e-7));

  // On one device blocks move no inputs, and the model is whole there.
  trainable(model).place(std::array{fake_device(0)}, precision);
  CHECK(model.layers[3]->weight.device() == devices[0]);
  CHECK(at::allclose(model.outputs(inputs.to(devices[0])).cpu(), expected, 1e-6, 1e-7));
}

}  // namespace cxtrain::test
