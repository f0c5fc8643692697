#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"
#include "support/crawler.h"

namespace cxtrain {
namespace {

/// 20 steps in this precision.
void train(Module& model, const std::string& precision, const std::string& level) {
  Options options = test::on_gpus("single", 1);
  options.trainer.precision = precision;
  if (!level.empty()) options.trainer.amp_level = level;
  SoloWorld world;
  Trainer trainer(world, options);
  test::ToyData data(96, 12);
  trainer.fit(model, data);
}

using test::Crawler;

TEST_CASE("on a GPU, O2 adds up in its master weights what float16 weights round away", "[gpu]") {
  Crawler half, o2;
  train(half, "16-true", "");
  train(o2, "16-mixed", "O2");
  REQUIRE(o2.weight.device() == test::kGpu);
  REQUIRE(o2.weight.scalar_type() == at::kHalf);
  CHECK(half.weight.item<float>() == 1.0f);
  CHECK(o2.weight.item<float>() == 1.0f - 20.0f / 8192);
}

TEST_CASE("on a GPU, O2 learns about what float32 learns", "[gpu]") {
  test::Regression full, o2;
  const at::Tensor start = test::flat_parameters(full);
  train(full, "32-true", "");
  train(o2, "16-mixed", "O2");
  const at::Tensor expected = test::flat_parameters(full).cpu(), found = test::flat_parameters(o2).cpu();
  const double way = expected.sub(start).norm().item<double>();
  CHECK(way > 0.1);
  CHECK(found.sub(expected).norm().item<double>() < 0.1 * way);
}

}  // namespace
}  // namespace cxtrain
