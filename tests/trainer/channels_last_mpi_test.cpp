#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "cxtrain/data/tensor_dataset.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/toy_models.h"

/// --channels_last: another order in memory, the same training.
namespace cxtrain {
namespace {

class Images final : public DataModule {
 public:
  void setup(Stage, const DataOptions&) override {
    at::manual_seed(5);
    data_ = std::make_shared<TensorDataset>(std::vector{at::randn({48, 3, 6, 6}), at::randn({48, 2})});
  }
  Loaders train_dataloader() override { return {data_, 4, /*shuffle=*/true}; }

 private:
  std::shared_ptr<const TensorDataset> data_;
};

class SmallCnn final : public Module {
 public:
  SmallCnn() {
    at::manual_seed(1);
    conv = register_module("conv", torch::nn::Conv2d(3, 8, 3));
    head = register_module("head", torch::nn::Linear(8, 2));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    inputs_with_channels_last = batch[0].is_contiguous(at::MemoryFormat::ChannelsLast);
    const at::Tensor features = at::relu(conv->forward(batch[0])).mean(at::IntArrayRef({2, 3}));
    return torch::nn::functional::mse_loss(head->forward(features), batch[1]);
  }
  Optimizers configure_optimizers() override { return Adam{.lr = 0.01}; }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::Linear head{nullptr};
  bool inputs_with_channels_last = false;
};

at::Tensor train_cnn(bool channels_last, const std::string& strategy, const std::string& devices) {
  Options options = test::quiet("");
  options.trainer.logger = false;
  options.trainer.accelerator = "cpu";
  options.trainer.strategy = strategy;
  options.trainer.devices = devices;
  options.trainer.max_epochs = 3;
  options.trainer.channels_last = channels_last;
  Trainer trainer(test_world(), options);
  trainer.set_replica_factory([] { return std::make_unique<SmallCnn>(); });
  SmallCnn model;
  Images data;
  const RunSummary summary = trainer.fit(model, data);
  CHECK(summary.parameters_equal_on_all_ranks);
  CHECK(model.inputs_with_channels_last == channels_last);
  CHECK(model.conv->weight.is_contiguous(at::MemoryFormat::ChannelsLast) == channels_last);
  return test::flat_parameters(model);
}

TEST_CASE("a model with the channels last in memory is trained as one with rows is", "[channels_last]") {
  const std::string ranks = std::to_string(test_world().size());
  CHECK(at::allclose(train_cnn(true, "ddp", ranks), train_cnn(false, "ddp", ranks), 1e-4, 1e-5));
  if (test_world().size() > 1) return;
  CHECK(at::allclose(train_cnn(true, "dp", "2"), train_cnn(false, "single", "1"), 1e-4, 1e-5));
}

}  // namespace
}  // namespace cxtrain
