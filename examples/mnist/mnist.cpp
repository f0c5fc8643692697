// Handwritten digits of 28 x 28 pixels, by an MLP or a small CNN. The networks are in mnist_net.h, the data
// in mnist_data.cpp.

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/softmax.h>

#include "cxtrain/metrics/classification.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"
#include "mnist/mnist_data.h"
#include "mnist/mnist_net.h"

namespace {

using namespace cxtrain;

class MnistModel final : public ChainModule {
 public:
  struct Args {
    std::string net = "mlp";
    double lr = 1e-3;

    void fields(auto&& field) {
      field("net", net, "the network", one_of("mlp", "cnn"));
      field("lr", lr, "Adam's learning rate", Range::at_least(0));
    }
  };
  explicit MnistModel(const Args& args) : args_(args) { add_blocks("net", make_mnist_net(args.net)); }

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
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<MnistData>(); }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 3}; }

 private:
  void evaluate(const Batch& batch, std::string_view loss_name, std::string_view accuracy_name) {
    const at::Tensor logits = run_blocks(batch).tensor();
    log(loss_name, at::cross_entropy_loss(logits, batch[1]), {.prog_bar = true});
    accuracy_.update(logits, batch[1]);
    log(accuracy_name, accuracy_, {.prog_bar = true});
  }

  Args args_;
  Accuracy& accuracy_ = register_metric<Accuracy>("accuracy", {.classes = 10});
};

}  // namespace

CXTRAIN_PLUGIN("mnist", [](Registry& registry) {
  registry.add<MnistModel>("mnist", "MNIST (IDX files in --data.path) by an MLP or a small CNN");
})
