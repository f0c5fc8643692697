#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_file.h"
#include "cxtrain/data/digits_dataset.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/module.h"

/// An MLP on the digits that can be trained in every way that a strategy knows, its two layers on different
/// devices included, and that leaves its parameters behind: float32, one after the other, written by rank 0.
namespace {

using namespace cxtrain;

class Data : public DataModule {
 public:
  void setup(Stage, const DataOptions& options) override {
    const Digits digits = read_digits(find_data_file("digits.csv.gz"));
    images_ = std::make_shared<TensorDataset>(std::vector{digits.images, digits.labels});
    batch_size_ = options.batch_size.value();
  }
  Loaders train_dataloader() override { return {images_, batch_size_, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {images_, batch_size_}; }

 private:
  std::shared_ptr<const Dataset> images_;
  std::int64_t batch_size_ = 0;
};

class Witness : public Module {
 public:
  struct Args {
    std::string parameters_file;

    void fields(auto&& field) { field("parameters_file", parameters_file, "where to"); }
  };
  explicit Witness(const Args& args) : parameters_file_(args.parameters_file) {
    hidden_ = register_module("hidden", torch::nn::Linear(64, 48));
    output_ = register_module("output", torch::nn::Linear(48, 10));
  }

  void place_parts() override {
    hidden_->to(part_device(0));
    output_->to(part_device(1));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = loss_of(batch);
    log("train_loss", loss, {.on_step = false, .on_epoch = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { log("val_loss", loss_of(batch)); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1, .momentum = 0.9}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<Data>(); }

  void on_train_end() override {
    if (!is_global_zero()) return;
    std::ofstream file(parameters_file_, std::ios::binary);
    for (const at::Tensor& parameter : parameters()) {
      const at::Tensor values = parameter.detach().to(at::kCPU, at::kFloat).contiguous();
      file.write(static_cast<const char*>(values.const_data_ptr()),
                 static_cast<std::streamsize>(values.nbytes()));
    }
    if (!file.flush()) throw DataError("cannot write " + parameters_file_);
  }

 private:
  at::Tensor loss_of(const Batch& batch) {
    const at::Tensor hidden = to_part(at::relu(hidden_(batch[0])), 1);
    return at::cross_entropy_loss(output_(hidden), to_part(batch[1], 1));
  }

  std::string parameters_file_;
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

CXTRAIN_PLUGIN("model witness", [](Registry& registry) {
  registry.add<Witness>("witness", "an MLP on the digits that leaves its parameters behind");
})
