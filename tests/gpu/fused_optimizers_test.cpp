#include <ATen/ops/allclose.h>

#include "cxtrain/optim/optimizer.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

const std::vector<OptimizerConfig> kFused{Sgd{.lr = 0.1, .momentum = 0.9}, Adam{.lr = 0.01},
                                          AdamW{.lr = 0.01}};

TEST_CASE("on a GPU, every fused optimizer raises the version of what it changes", "[gpu]") {
  for (const OptimizerConfig& config : kFused) {
    CAPTURE(config.index());
    const at::Tensor weight = at::randn({100}).to(test::kGpu).set_requires_grad(true);
    const auto optimizer = make_optimizer({.optimizer = config}, {{"w", weight}});
    for (int step = 0; step < 2; ++step) {
      const auto before = weight._version();
      optimizer->step({.gradients = std::vector{at::randn({100}).to(test::kGpu)}});
      CHECK(weight._version() > before);
    }
  }
}

TEST_CASE("on a GPU, fused optimizers take channels-last weights with their gradients", "[gpu]") {
  constexpr auto kLayout = at::MemoryFormat::ChannelsLast;
  for (const OptimizerConfig& config : kFused) {
    CAPTURE(config.index());
    at::manual_seed(4);
    const at::Tensor start = at::randn({8, 4, 3, 3}), gradient = at::randn({8, 4, 3, 3});
    const at::Tensor on_host = start.clone().set_requires_grad(true);
    const at::Tensor on_gpu = start.to(test::kGpu).contiguous(kLayout).set_requires_grad(true);
    const auto expected = make_optimizer({.optimizer = config}, {{"w", on_host}});
    const auto found = make_optimizer({.optimizer = config}, {{"w", on_gpu}});
    for (int step = 0; step < 3; ++step) {
      expected->step({.gradients = std::vector{gradient}});
      found->step({.gradients = std::vector{gradient.to(test::kGpu).contiguous(kLayout)}});
    }
    CHECK(on_gpu.is_contiguous(kLayout));
    CHECK(at::allclose(on_gpu.detach().cpu(), on_host.detach(), 1e-4, 1e-5));
  }
}

}  // namespace
}  // namespace cxtrain
