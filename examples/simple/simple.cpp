// One large linear layer on random numbers: nothing to learn, everything to measure. With 82 million
// parameters the time goes into gradients, their reduction and the optimizer, which is what a strategy has to
// be good at.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <torch/nn/modules/linear.h>

#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/within_memory.h"

namespace {

using namespace cxtrain;

struct Sizes {
  std::int64_t in = 12800, out = 6400, samples = 1024;
};

const Sizes& checked(const Sizes& sizes) {
  const auto in = static_cast<double>(sizes.in), out = static_cast<double>(sizes.out);
  require_memory_for("model.in, model.out", in * out);
  // The samples have no gradients: half of what as many parameters take.
  require_memory_for("model.samples", static_cast<double>(sizes.samples) * (in + out) / 2);
  return sizes;
}

/// Random inputs and targets, the same on every rank.
class RandomData final : public DataModule {
 public:
  explicit RandomData(Sizes sizes) : sizes_(sizes) {}

  void setup(Stage, const DataOptions&) override {
    const at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
    data_ = std::make_shared<TensorDataset>(std::vector{
        at::randn({sizes_.samples, sizes_.in}, generator, at::TensorOptions().dtype(at::kFloat)),
        at::randn({sizes_.samples, sizes_.out}, generator, at::TensorOptions().dtype(at::kFloat))});
  }

  Loaders train_dataloader() override { return {data_, kBatchSize, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {data_, kBatchSize}; }
  Loaders test_dataloader() override { return {data_, kBatchSize}; }
  Loaders predict_dataloader() override { return {data_, kBatchSize}; }

 private:
  Sizes sizes_;
  static constexpr std::int64_t kBatchSize = 320;
  std::shared_ptr<const Dataset> data_;
};

class SimpleModel final : public Module {
 public:
  struct Args {
    Sizes sizes;
    double lr = 1e-3;

    void fields(auto&& field) {
      field("in", sizes.in, "input features", Range::at_least(1));
      field("out", sizes.out, "output features", Range::at_least(1));
      field("samples", sizes.samples, "random samples in an epoch", Range::at_least(1));
      field("lr", lr, "Adam's learning rate", Range::at_least(0));
    }
  };
  explicit SimpleModel(const Args& args)
      : sizes_(checked(args.sizes)),
        lr_(args.lr),
        linear_(register_module("linear", torch::nn::Linear(sizes_.in, sizes_.out))) {}

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = at::mse_loss(linear_(batch[0]), batch[1]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", at::mse_loss(linear_(batch[0]), batch[1]), {.prog_bar = true});
  }
  void test_step(const Batch& batch, std::int64_t) override {
    log("test_loss", at::mse_loss(linear_(batch[0]), batch[1]));
  }
  at::Tensor predict_step(const Batch& batch, std::int64_t) override { return linear_(batch[0]); }

  Optimizers configure_optimizers() override { return Adam{.lr = lr_}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<RandomData>(sizes_); }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 2}; }

 private:
  Sizes sizes_;
  double lr_;
  torch::nn::Linear linear_;
};

}  // namespace

CXTRAIN_PLUGIN("simple", [](Registry& registry) {
  registry.add<SimpleModel>("simple", "one large linear layer on random data, for measuring");
})
