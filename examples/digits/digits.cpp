// The built-in example: a small MLP on 1,797 handwritten digits of 8 x 8 pixels. Everything that a model
// plugin needs is in this file: a Module, its data, and the registration at the end.

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/softmax.h>
#include <torch/nn/modules/linear.h>

#include "cxtrain/data/data_file.h"
#include "cxtrain/data/digits_dataset.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"
#include "cxtrain/trainer/within_memory.h"

namespace {

using namespace cxtrain;

/// Every fifth image is for validation, the others for training.
class DigitsData final : public DataModule {
 public:
  void setup(Stage, const DataOptions& options) override {
    const Digits digits = read_digits(options.path.empty() ? find_data_file("digits.csv.gz") : options.path);
    std::vector<std::int64_t> train, val;
    for (std::int64_t i = 0; i < digits.labels.size(0); ++i) (i % 5 == 0 ? val : train).push_back(i);
    train_ = select(digits, train);
    val_ = select(digits, val);
  }

  Loaders train_dataloader() override { return {train_, kBatchSize, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {val_, kBatchSize}; }
  Loaders test_dataloader() override { return {val_, kBatchSize}; }
  Loaders predict_dataloader() override { return {val_, kBatchSize}; }

 private:
  static std::shared_ptr<const Dataset> select(const Digits& digits, const std::vector<std::int64_t>& which) {
    return std::make_shared<TensorDataset>(
        std::vector{gather_rows(digits.images, which), gather_rows(digits.labels, which)});
  }

  static constexpr std::int64_t kBatchSize = 32;
  std::shared_ptr<const Dataset> train_, val_;
};

/// Takes the activations of the layer before.
struct OutputImpl : torch::nn::LinearImpl {
  using LinearImpl::LinearImpl;
  at::Tensor forward(const at::Tensor& x) { return LinearImpl::forward(at::relu(x)); }
};
TORCH_MODULE(Output);

class DigitsModel final : public ChainModule {
 public:
  struct Args {
    std::int64_t hidden = 256;
    double lr = 1e-2;

    void fields(auto&& field) {
      field("hidden", hidden, "units of the hidden layer", Range::at_least(1));
      field("lr", lr, "Adam's learning rate", Range::at_least(0));
    }
  };
  explicit DigitsModel(const Args& args) : args_(args) {
    require_memory_for("model.hidden", 75.0 * static_cast<double>(args.hidden));
    add_block("hidden", torch::nn::Linear(64, args.hidden));
    add_block("output", Output(args.hidden, 10));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = at::cross_entropy_loss(run_blocks(batch).tensor(), batch[1]);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { evaluate(batch, "val_loss", "val_acc"); }
  void test_step(const Batch& batch, std::int64_t) override { evaluate(batch, "test_loss", "test_acc"); }
  /// The probability of each digit, float32 [B, 10].
  at::Tensor predict_step(const Batch& batch, std::int64_t) override {
    return at::softmax(run_blocks(batch).tensor(), 1);
  }

  Optimizers configure_optimizers() override { return Adam{.lr = args_.lr}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<DigitsData>(); }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 30}; }

 private:
  void evaluate(const Batch& batch, std::string_view loss_name, std::string_view accuracy_name) {
    const at::Tensor logits = run_blocks(batch).tensor();
    log(loss_name, at::cross_entropy_loss(logits, batch[1]), {.prog_bar = true});
    log(accuracy_name, logits.argmax(1).eq(batch[1]).to(at::kFloat).mean(), {.prog_bar = true});
  }

  Args args_;
};

}  // namespace

CXTRAIN_PLUGIN("digits", [](Registry& registry) {
  registry.add<DigitsModel>("digits", "MLP on 8x8 handwritten digits (1,797 images, comes with the program)");
})
