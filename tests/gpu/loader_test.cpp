#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>

#include "cxtrain/cluster/world.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/data/tensor_dataset.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

/// Sample i is a row of i's: a batch whose memory was used again before its copy had ended is not even in
/// itself.
class Rows : public DataModule {
 public:
  static constexpr std::int64_t kSamples = 512, kWidth = 1 << 14, kBatch = 64;
  void setup(Stage, const DataOptions&) override {}
  Loaders train_dataloader() override {
    const at::Tensor numbers = at::arange(kSamples, at::kFloat).unsqueeze(1);
    const at::Tensor rows = numbers.expand({kSamples, kWidth}).contiguous();
    return {std::make_shared<TensorDataset>(std::vector{rows, numbers}), kBatch, /*shuffle=*/true};
  }
};

/// Looks at what arrives on the GPU, after work that keeps it busy while later batches are on their way.
class Inspector : public Module {
 public:
  Inspector() { weight = register_parameter("weight", at::ones({1})); }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    at::Tensor product = batch[0].matmul(batch[0].t());
    for (int i = 0; i < 20; ++i) product = product.matmul(product).clamp(-1, 1);
    uneven.push_back(batch[0].sub(batch[1]).abs().max() + 0 * product.sum());
    device = batch[0].device();
    return (weight * 0).sum();
  }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
  at::Tensor weight;
  std::vector<at::Tensor> uneven;
  at::Device device{at::kCPU};
};

TEST_CASE("batches reach the GPU whole, from page-locked memory, with and without workers", "[gpu]") {
  for (const int workers : {0, 1, 3}) {
    CAPTURE(workers);
    Options options = test::on_gpus("single", 1);
    options.data.num_workers = workers;
    SoloWorld world;
    Trainer trainer(world, options);
    Rows data;
    Inspector model;
    trainer.fit(model, data);
    CHECK(model.device == test::kGpu);
    REQUIRE(model.uneven.size() == 20);
    CHECK(at::stack(model.uneven).max().item<float>() == 0);
  }
}

}  // namespace
}  // namespace cxtrain
