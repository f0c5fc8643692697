#include <ATen/ops/allclose.h>

#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

using test::Regression;

/// The parameters after 20 steps on this many GPUs.
at::Tensor trained(const std::string& strategy, int gpus, const OptimizerSetup& setup) {
  SoloWorld world;
  Trainer trainer(world, test::on_gpus(strategy, gpus));
  trainer.set_replica_factory([&] { return std::make_unique<Regression>(setup); });
  test::ToyData data(96, 12);
  Regression model(setup);
  trainer.fit(model, data);
  return test::flat_parameters(model).cpu();
}

TEST_CASE("after 20 steps dp on two GPUs is where one GPU is, with every optimizer", "[gpu]") {
  if (!test::has_two_gpus()) return;
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig(Sgd{.lr = 0.1, .momentum = 0.9}), OptimizerConfig(Adam{.lr = 0.01}),
        OptimizerConfig(AdamW{.lr = 0.01})}) {
    CAPTURE(optimizer.index());
    const OptimizerSetup setup{.optimizer = optimizer};
    CHECK(at::allclose(trained("dp", 2, setup), trained("single", 1, setup), 1e-3, 1e-5));
  }
}

}  // namespace
}  // namespace cxtrain
