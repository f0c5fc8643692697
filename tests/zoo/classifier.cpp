#include <cxtrain/cxtrain.h>

#include <fstream>

using namespace cxtrain;

struct Classifier : Module {
  struct Args {
    double lr = 0.1;
    std::int64_t width = 16;
    void fields(auto&& f) {
      f("lr", lr, "peak learning rate", Range::at_least(0));
      f("width", width, "channels", Range::at_least(1));
    }
  };
  explicit Classifier(const Args& its_args) : args(its_args) {
    save_hyperparameters(args);
    net = register_module("net", torch::nn::Sequential(torch::nn::Conv2d(3, args.width, 3), torch::nn::ReLU(),
                                                       torch::nn::AdaptiveAvgPool2d(4), torch::nn::Flatten(),
                                                       torch::nn::Linear(args.width * 16, 2)));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const auto [x, y] = batch.unpack<2>();
    const auto loss = torch::cross_entropy_loss(net->forward(x), y);
    log("train_loss", loss, {.prog_bar = true});
    return loss;
  }
  void validation_step(const Batch& batch, std::int64_t) override { evaluate("val_acc", batch); }
  void test_step(const Batch& batch, std::int64_t) override { evaluate("test_acc", batch); }
  void evaluate(const char* name, const Batch& batch) {
    acc.update(net->forward(batch[0]), batch[1]);
    log(name, acc, {.prog_bar = true});
  }
  Optimizers configure_optimizers() override {
    return Sgd{.lr = args.lr, .momentum = 0.9}.with(CosineSchedule{});
  }
  at::Tensor filters() { return net[0]->as<torch::nn::Conv2d>()->weight.detach().sigmoid(); }
  Args args;
  torch::nn::Sequential net;
  Accuracy& acc = register_metric<Accuracy>("acc", {.classes = 2});
};

CXTRAIN_REGISTER(Classifier, "classifier", "a network for pictures");

/// Keeps the last row of metrics in a file.
struct MyLogger : MetricLogger {
  explicit MyLogger(std::string file) : file_(std::move(file)) {}
  void log(std::int64_t step, std::int64_t, std::span<const Metric> metrics) override {
    row_ = "step " + std::to_string(step);
    for (const auto& [name, value] : metrics) row_ += " " + name + "=" + std::to_string(value);
  }
  void flush() override { std::ofstream(file_) << row_ << "\n"; }

 private:
  std::string file_, row_;
};

/// Trains, keeps the best checkpoint, and tests it. The command line may change every default.
int main(int argc, char** argv) {
  return run(argc, argv, {.trainer = {.accelerator = "cpu", .devices = 2, .max_epochs = 3}},
             [](Trainer& trainer) {
               Classifier model({.lr = 0.05});
               ImageFolders data({.path = "pictures",
                                  .batch_size = 16,
                                  .train = {RandomResizedCrop{32}, RandomFlip{}},
                                  .eval = {Resize{36}, CenterCrop{32}}});
               trainer.add_callback<ModelCheckpoint>({.monitor = "val_acc", .mode = MonitorMode::max});
               trainer.add_callback<Ema>({.decay = 0.9});
               trainer.add_callback<LambdaCallback>({.on_train_epoch_end = [](Run& run) {
                 run.loggers().log_image("filters", run.module<Classifier>().filters());
               }});
               trainer.add_logger<MyLogger>("last_row.txt");
               trainer.fit(model, data, {.ckpt_path = "auto"});
               trainer.test(model, data, {.ckpt_path = "best"});
             });
}
