// A generative adversarial network for handwritten digits (Goodfellow et al. 2014): two networks, two
// optimizers, manual optimization. After each epoch TensorBoard and the run's folder get a picture of 64
// generated digits.

#include <torch/torch.h>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/report/png.h"
#include "cxtrain/trainer/module.h"
#include "mnist/mnist_data.h"

namespace {

using namespace cxtrain;
namespace nn = torch::nn;

constexpr std::int64_t kNoise = 64, kSide = 28, kPixels = kSide * kSide;

/// Returns the mean binary cross-entropy of logits against one truth (0 or 1) for all samples.
at::Tensor bce(const at::Tensor& logits, double truth) {
  return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, truth));
}

class Gan final : public Module {
 public:
  struct Args {
    double lr = 2e-4;
    std::int64_t width = 256;

    void fields(auto&& field) {
      field("lr", lr, "Adam's learning rate, of both networks", Range::at_least(0));
      field("width", width, "units of the hidden layers", Range::at_least(1));
    }
  };
  explicit Gan(const Args& args) : args_(args) {
    automatic_optimization = false;
    generator_ = register_module("generator", layers(kNoise, kPixels));
    discriminator_ = register_module("discriminator", layers(kPixels, 1));
    seen_noise_ = register_buffer("seen_noise", torch::randn({64, kNoise}));
  }

  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor images = batch[0].reshape({-1, kPixels}).mul(2).sub(1);
    const at::Tensor noise = torch::randn({images.size(0), kNoise}, images.options());
    optimizer("generator").minimize([&] {
      const at::Tensor loss = bce(discriminator_->forward(generated(noise)), 1);
      log("generator_loss", loss, {.prog_bar = true});
      return loss;
    });
    optimizer("discriminator").minimize([&] {
      const at::Tensor loss = discriminator_loss(images, noise);
      log("discriminator_loss", loss, {.prog_bar = true});
      return loss;
    });
    return {};
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    const at::Tensor images = batch[0].reshape({-1, kPixels}).mul(2).sub(1);
    log("val_discriminator_loss",
        discriminator_loss(images, torch::randn({images.size(0), kNoise}, images.options())));
  }

  Optimizers configure_optimizers() override {
    const Adam adam{.lr = args_.lr, .beta1 = 0.5};
    return {{"generator", adam, generator_->parameters()},
            {"discriminator", adam, discriminator_->parameters()}};
  }

  /// 64 generated digits of the same noise, float32 [64, 1, 28, 28] in 0..1.
  at::Tensor pictures() {
    const torch::NoGradGuard no_grad;
    return generated(seen_noise_).add(1).div(2).reshape({-1, 1, kSide, kSide});
  }

  std::vector<std::unique_ptr<Callback>> configure_callbacks() override;
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<MnistData>(); }
  TrainerDefaults trainer_defaults() const override { return {.max_epochs = 10}; }

 private:
  nn::Sequential layers(std::int64_t inputs, std::int64_t outputs) const {
    const nn::LeakyReLU leaky(nn::LeakyReLUOptions().negative_slope(0.2));
    return nn::Sequential(nn::Linear(inputs, args_.width), leaky, nn::Linear(args_.width, args_.width), leaky,
                          nn::Linear(args_.width, outputs));
  }
  at::Tensor discriminator_loss(const at::Tensor& images, const at::Tensor& noise) {
    return bce(discriminator_->forward(images), 1) +
           bce(discriminator_->forward(generated(noise).detach()), 0);
  }
  at::Tensor generated(const at::Tensor& noise) { return torch::tanh(generator_->forward(noise)); }

  Args args_;
  nn::Sequential generator_{nullptr}, discriminator_{nullptr};
  at::Tensor seen_noise_;
};

/// Logs the generated digits of each epoch on rank 0, and writes generated_epoch_K.png.
class Pictures final : public Callback {
  void on_train_epoch_end(Run& run) override {
    if (run.rank() != 0) return;
    const at::Tensor pictures = run.module<Gan>().pictures();
    run.loggers().log_image("generated", pictures);
    if (run.log_dir().empty()) return;
    const std::string name = "/generated_epoch_" + std::to_string(run.current_epoch()) + ".png";
    write_at_once(run.files(), run.log_dir() + name, to_png(pictures));
  }
};

std::vector<std::unique_ptr<Callback>> Gan::configure_callbacks() {
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<Pictures>());
  return callbacks;
}

}  // namespace

CXTRAIN_PLUGIN("gan", [](Registry& registry) {
  registry.add<Gan>("gan", "digits that two networks learn to draw, on MNIST (IDX files in --data.path)");
})
