#include <ATen/ATen.h>

#include "fake_run.h"
#include "fixture.h"

namespace cxtrain {
namespace {

/// Draws on the device of the batch, before and after the transfer.
class DrawingModel : public test::Regression {
 public:
  void on_before_batch_transfer(Batch& batch, BatchContext& context) override {
    CHECK(context.device().is_cpu());
    CHECK(batch[0].is_cpu());
    batch.tensors[0] = batch[0] + at::randn(batch[0].sizes(), context.generator());
  }
  void on_after_batch_transfer(Batch& batch, BatchContext& context) override {
    CHECK(context.device() == device());
    CHECK(batch[0].device() == device());
    const at::Tensor noise = at::empty_like(batch[0]).normal_(0, 1, context.generator());
    drawn.push_back(noise.sum().item<double>());
    batch.tensors[0] = batch[0] + noise;
  }
  std::vector<double> drawn;
};

/// Two loaders; the dataset of each finishes its part on the device.
class DoubledData : public test::ToyData {
 public:
  DoubledData() : ToyData(96, 12) {}
  Loaders train_dataloader() override {
    const DataLoaderSpec spec = ToyData::train_dataloader().specs()[0];
    const auto doubled = std::make_shared<Doubled>(spec.dataset);
    return {{doubled, 12}, {doubled, 4}};
  }

 private:
  struct Doubled : Dataset {
    explicit Doubled(std::shared_ptr<const Dataset> below) : dataset(std::move(below)) {}
    std::int64_t size() const override { return dataset->size(); }
    Batch get(std::int64_t index, SampleRandom& random) const override { return dataset->get(index, random); }
    void on_after_batch_transfer(Batch& batch) const override {
      CHECK_FALSE(batch[0].is_cpu());
      batch.tensors[0] = batch[0] * 2;
    }
    std::shared_ptr<const Dataset> dataset;
  };
};

}  // namespace

TEST_CASE_METHOD(test::TwoFakeDevices, "transfer hooks get the batch on the host, then on the device") {
  SoloWorld world;
  const Options options = test::short_run("single");
  test::FakeAccelerator accelerator(test::kFakeDevices);
  std::vector<double> first;
  for (int run = 0; run < 2; ++run) {
    test::ToyData data(96, 12);
    DrawingModel model;
    Trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator).fit(model, data);
    REQUIRE(model.drawn.size() == 20);
    CHECK((run == 0 || model.drawn == first));
    first = model.drawn;
    CHECK(first[0] != first[1]);
  }
}

TEST_CASE_METHOD(test::TwoFakeDevices,
                 "the datasets of two training loaders finish their parts on the device") {
  class Summing : public test::Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      CHECK(batch.part("0")[0].size(0) == 12);
      CHECK(batch.part("1")[0].size(0) == 4);
      CHECK(batch.part("1").size == 4);
      return loss(batch.part("0")) + loss(batch.part("1"));
    }
  };
  SoloWorld world;
  const Options options = test::short_run("single");
  test::FakeAccelerator accelerator(test::kFakeDevices);
  DoubledData data;
  Summing model;
  const RunSummary summary =
      Trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator).fit(model, data);
  CHECK(summary.global_step == 20);
}

}  // namespace cxtrain
