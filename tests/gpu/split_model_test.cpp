#include "support/split_model.h"

#include <ATen/ops/allclose.h>

#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

/// The parameters of the toy regression after 20 steps, its layers on one GPU or on two.
template <class Model>
at::Tensor trained(int gpus) {
  Options options = test::on_gpus("single", gpus);
  options.trainer.devices_per_rank = gpus;
  options.trainer.gradient_clip_val = 0.1;                       // a norm over both GPUs
  options.optimizer = {.name = "sgd", .args = {{"lr", "0.5"}}};  // Adam would not see how long gradients are
  SoloWorld world;
  Trainer trainer(world, options);
  test::ToyData data(96, 12);
  Model model;
  trainer.fit(model, data);
  if (gpus == 2) CHECK(model.second->weight.device() == at::Device(test::kGpu.type(), 1));
  std::vector<at::Tensor> parts;
  for (const at::Tensor& parameter : model.parameters()) parts.push_back(parameter.detach().cpu().flatten());
  return at::cat(parts);
}

TEST_CASE("a model split over two GPUs learns what it learns on one", "[gpu]") {
  if (!test::has_two_gpus()) return;
  CHECK(at::allclose(trained<test::SplitRegression>(2), trained<test::Regression>(1), 1e-3, 1e-5));
}

}  // namespace
}  // namespace cxtrain
