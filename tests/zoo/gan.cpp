#include <cxtrain/cxtrain.h>

using namespace cxtrain;

/// Points of a circle, which the generator learns, each with noise for the generator.
struct Circle : Dataset {
  std::int64_t size() const override { return 501; }
  Batch get(std::int64_t index, SampleRandom& random) const override {
    const auto angle = static_cast<double>(index);
    std::vector<double> noise(4);
    for (double& value : noise) value = random.uniform(-1, 1);
    return {{torch::tensor({std::cos(angle), std::sin(angle)}).to(torch::kFloat),
             torch::tensor(noise).to(torch::kFloat)}};
  }
};

struct CircleData : DataModule {
  Loaders train_dataloader() override { return {std::make_shared<Circle>(), 50, /*shuffle=*/true}; }
};

at::Tensor bce(const at::Tensor& logits, double truth) {
  return torch::binary_cross_entropy_with_logits(logits, torch::full_like(logits, truth));
}

struct Gan : Module {
  Gan() { automatic_optimization = false; }
  Optimizers configure_optimizers() override {
    return {{"g", Adam{.lr = 2e-3, .beta1 = 0.5}, G->parameters()},
            {"d", Adam{.lr = 2e-3, .beta1 = 0.5}, D->parameters()}};
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const auto [points, noise] = batch.unpack<2>();
    optimizer("g").minimize([&] { return logged("g_loss", bce(D->forward(G->forward(noise)), 1)); });
    optimizer("d").minimize([&] {
      return logged("d_loss", bce(D->forward(points), 1) + bce(D->forward(G->forward(noise).detach()), 0));
    });
    return {};
  }
  at::Tensor logged(const char* name, const at::Tensor& loss) {
    log(name, loss, {.on_step = false, .on_epoch = true});
    return loss;
  }
  static torch::nn::Sequential layers(std::int64_t inputs, std::int64_t outputs) {
    return torch::nn::Sequential(torch::nn::Linear(inputs, 32), torch::nn::Tanh(),
                                 torch::nn::Linear(32, outputs));
  }
  torch::nn::Sequential G = register_module("G", layers(4, 2)), D = register_module("D", layers(2, 1));
};

int main(int argc, char** argv) {
  return run(argc, argv, {.trainer = {.accelerator = "cpu", .max_epochs = 4}}, [](Trainer& trainer) {
    Gan model;
    CircleData data;
    trainer.fit(model, data);
  });
}
