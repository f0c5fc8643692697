#pragma once

#include <ATen/core/grad_mode.h>
#include <cxtrain/callbacks/callback.h>
#include <cxtrain/report/metric_logger.h>

#include <fstream>

#include "resnet.h"

/// An exponential moving average of the parameters, of which it logs how far the model is from it.
class Mean : public cxtrain::Callback {
 public:
  struct Args {
    double decay = 0.99;

    void fields(auto&& field) { field("decay", decay, "weight of the old average in each step"); }
  };
  explicit Mean(const Args& args) : decay_(args.decay) {}
  void on_train_start(cxtrain::Run& run) override {
    for (const at::Tensor& parameter : run.module().parameters())
      averages_.push_back(parameter.detach().clone());
  }
  void on_train_batch_end(cxtrain::Run& run, const cxtrain::StepOutput&, const cxtrain::Batch&,
                          std::int64_t) override {
    const at::NoGradGuard no_grad;
    const auto parameters = run.module<ResNet>().parameters();
    for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].lerp_(parameters[i], 1 - decay_);
  }
  void on_train_epoch_end(cxtrain::Run& run) override {
    const at::NoGradGuard no_grad;
    double distance = 0;
    const auto parameters = run.module().parameters();
    for (std::size_t i = 0; i < averages_.size(); ++i)
      distance += (averages_[i] - parameters[i]).norm().item<double>();
    run.log("mean_distance", distance);
  }

 private:
  double decay_;
  std::vector<at::Tensor> averages_;
};

/// Writes what each batch of a prediction gave, with the samples' numbers.
class PredictionWriter : public cxtrain::Callback {
 public:
  void on_predict_batch_end(cxtrain::Run& run, const at::Tensor& output, const cxtrain::Batch& batch,
                            std::int64_t) override {
    std::ofstream file(run.log_dir() + "/classes_" + std::to_string(run.rank()) + ".txt", std::ios::app);
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      file << batch.indices[i] << ' ' << output[static_cast<std::int64_t>(i)].item<std::int64_t>() << '\n';
    }
  }
};

/// Counts rows, and says how the run ended.
class RowCounter : public cxtrain::MetricLogger {
 public:
  struct Args {
    std::string file = "rows.txt";

    void fields(auto&& field) { field("file", file, "to write"); }
  };
  explicit RowCounter(const Args& args) : file_(args.file) {}
  void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows_; }
  void flush() override { std::ofstream(file_) << rows_ << " rows\n"; }

 private:
  std::string file_;
  int rows_ = 0;
};

inline void register_zoo(cxtrain::Registry& registry) {
  registry.add<ResNet>("resnet", "a small ResNet with a frozen backbone");
  registry.add<Mean>("mean", "a moving average of the parameters");
  registry.add<PredictionWriter>("prediction_writer", "classes as text");
  registry.add<RowCounter>("row_counter", "counts rows");
}
