#pragma once

#include <ATen/core/grad_mode.h>
#include <cxtrain/callbacks/callback.h>
#include <cxtrain/report/metric_logger.h>

#include <fstream>

#include "resnet.h"

/// An exponential moving average of the parameters, of which it logs how far the model is from it.
class Ema : public cxtrain::Callback {
 public:
  explicit Ema(double decay) : decay_(decay) {}
  void on_train_start(cxtrain::RunView& run) override {
    for (const at::Tensor& parameter : run.module().parameters())
      averages_.push_back(parameter.detach().clone());
  }
  void on_train_batch_end(cxtrain::RunView& run, const at::Tensor&, const cxtrain::Batch&,
                          std::int64_t) override {
    const at::NoGradGuard no_grad;
    const auto parameters = run.module_as<ResNet>().parameters();
    for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].lerp_(parameters[i], 1 - decay_);
  }
  void on_train_epoch_end(cxtrain::RunView& run) override {
    const at::NoGradGuard no_grad;
    double distance = 0;
    const auto parameters = run.module().parameters();
    for (std::size_t i = 0; i < averages_.size(); ++i)
      distance += (averages_[i] - parameters[i]).norm().item<double>();
    run.log("ema_distance", distance);
  }

 private:
  double decay_;
  std::vector<at::Tensor> averages_;
};

/// Writes what each batch of a prediction gave, with the samples' numbers.
class PredictionWriter : public cxtrain::Callback {
 public:
  void on_predict_batch_end(cxtrain::RunView& run, const cxtrain::Batch& batch, std::int64_t) override {
    std::ofstream file(run.log_dir() + "/classes_" + std::to_string(run.rank()) + ".txt", std::ios::app);
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      file << batch.indices[i] << ' ' << run.step_output()[static_cast<std::int64_t>(i)].item<std::int64_t>()
           << '\n';
    }
  }
};

/// Counts rows, and says how the run ended.
class RowCounter : public cxtrain::MetricLogger {
 public:
  explicit RowCounter(std::string file) : file_(std::move(file)) {}
  void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
  void flush() override { std::ofstream(file_) << rows_ << " rows\n"; }

 private:
  std::string file_;
  int rows_ = 0;
};

inline void register_zoo(cxtrain::Registry& registry) {
  using Type = cxtrain::ArgumentSpec::Type;
  registry.add<cxtrain::Module>(
      "resnet", "a small ResNet with a frozen backbone",
      {{"channels", Type::integer, "8", "of all layers", {}},
       {"unfreeze_epoch", Type::integer, "1", "from which on all of it trains", {}},
       {"skip_every", Type::integer, "0", "batches; 0: no batch is skipped", {}}},
      [](const auto& args) {
        return std::make_unique<ResNet>(ResNet::Options{
            args.integer("channels"), args.integer("unfreeze_epoch"), args.integer("skip_every")});
      });
  registry.add<cxtrain::Callback>("ema", "a moving average of the parameters",
                                  {{"decay", Type::real, "0.99", "of the average, a step", {}}},
                                  [](const auto& args) { return std::make_unique<Ema>(args.real("decay")); });
  registry.add<cxtrain::Callback>("prediction_writer", "classes as text", {},
                                  [](const auto&) { return std::make_unique<PredictionWriter>(); });
  registry.add<cxtrain::MetricLogger>(
      "row_counter", "counts rows", {{"file", Type::text, "rows.txt", "to write", {}}},
      [](const auto& args) { return std::make_unique<RowCounter>(args.text("file")); });
}
