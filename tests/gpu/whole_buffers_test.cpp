#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include "cxtrain/cluster/world.h"
#include "gpu/gpu_support.h"

namespace cxtrain {
namespace {

/// Needs a mask of bools and an index of whole numbers in each step.
class Masked : public test::Regression {
 public:
  Masked() {
    mask = register_buffer("mask", at::arange(6).ge(3));
    order = register_buffer("order", at::arange(6).flip(0));
    scale = register_buffer("scale", at::ones({6}));
  }
  StepOutput training_step(const Batch& batch, std::int64_t idx) override {
    Batch changed = batch;
    changed.tensors[0] = batch[0].index_select(1, order).masked_fill(mask, 0).mul(scale);
    return Regression::training_step(changed, idx);
  }
  at::Tensor mask, order, scale;
};

TEST_CASE("on a GPU, a model in 16 bits keeps its buffers of whole numbers and bools", "[gpu]") {
  for (const char* precision : {"bf16-true", "16-true"}) {
    CAPTURE(precision);
    Options options = test::on_gpus("single", 1);
    options.trainer.precision = precision;
    SoloWorld world;
    Trainer trainer(world, options);
    test::ToyData data(96, 12);
    Masked model;
    trainer.fit(model, data);
    CHECK(model.mask.device() == test::kGpu);
    CHECK(model.mask.scalar_type() == at::kBool);
    CHECK(model.order.scalar_type() == at::kLong);
    CHECK(model.scale.scalar_type() == model.first->weight.scalar_type());
    CHECK(at::isFloatingType(model.scale.scalar_type()));
    CHECK(model.scale.element_size() == 2);
  }
}

}  // namespace
}  // namespace cxtrain
