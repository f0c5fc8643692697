#include "two_parts.h"

#include <ATen/ops/linspace.h>
#include <cxtrain/data/tensor_dataset.h>
#include <cxtrain/plugin/plugin_abi.h>

class Squares : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions&) override {
    const at::Tensor x = at::linspace(-1, 1, 256).unsqueeze(1);
    points_ = std::make_shared<cxtrain::TensorDataset>(std::vector{x, x * x});
  }
  cxtrain::Loaders train_dataloader() override { return {points_, 32, /*shuffle=*/true}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> points_;
};

CXTRAIN_PLUGIN("two_parts", [](cxtrain::Registry& registry) {
  registry.add<TwoParts>("two_parts", "a model on two devices of a rank");
  registry.add<Squares>("squares", "256 points of a parabola");
})
