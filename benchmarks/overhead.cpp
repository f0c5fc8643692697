// Measures the time that the Trainer adds to a step, and the time that `--profiler simple` adds to a step of
// the Trainer. The model is so small that a step does little else. A hand-written loop, the Trainer (with
// metric files, progress bar and callbacks) and the Trainer with the profiler train it, block by block in
// turns. Prints one JSON line.
//
//   bench_overhead [--pairs N] [--steps N]

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/relu.h>
#include <fcntl.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/log.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/trainer/trainer.h"
#include "floor/floor_adam.h"

namespace {

using namespace cxtrain;
constexpr std::int64_t kBatch = 8, kWarmup = 1000;

class TinyData final : public DataModule {
 public:
  explicit TinyData(std::int64_t samples) : x(at::randn({samples, 8})), y(at::randn({samples, 1})) {}
  void setup(Stage, const DataOptions&) override {}
  Loaders train_dataloader() override {
    return {std::make_shared<TensorDataset>(std::vector{x, y}), kBatch, /*shuffle=*/true};
  }
  Loaders val_dataloader() override {
    return {std::make_shared<TensorDataset>(std::vector{x.slice(0, 0, kBatch), y.slice(0, 0, kBatch)}),
            kBatch};
  }

  at::Tensor x, y;
};

class Tiny final : public Module {
 public:
  Tiny() {
    first_ = register_module("first", torch::nn::Linear(8, 8));
    second_ = register_module("second", torch::nn::Linear(8, 1));
  }
  at::Tensor loss(const at::Tensor& x, const at::Tensor& y) {
    return at::mse_loss(second_(at::relu(first_(x))), y);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor value = loss(batch[0], batch[1]);
    log("train_loss", value, {.prog_bar = true});
    return value;
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    log("val_loss", loss(batch[0], batch[1]));
  }
  Optimizers configure_optimizers() override { return Adam{}; }

 private:
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};

/// Seconds from the end of the warm-up to the end of the last step.
class Stopwatch final : public Callback {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
    if (run.global_step() == kWarmup) begin_ = clock_.now();
    if (run.global_step() == run.progress().num_batches) seconds_ = clock_.now() - begin_;
  }

 private:
  double& seconds_;
  SteadyClock clock_;
  double begin_ = 0;
};

double trainer_block(World& world, TinyData& data, const std::string& folder,
                     std::optional<Profiler> profiler = {}) {
  Options options;
  options.trainer.max_epochs = 1;
  options.trainer.log_every_n_steps = 50;
  options.trainer.default_root_dir = folder;
  options.trainer.profiler = profiler;
  options.callbacks = {{"lr_monitor", {}}, {"early_stopping", {{"monitor", "val_loss"}}}};
  Trainer trainer(world, options);
  double seconds = 0;
  trainer.add_callback(std::make_unique<Stopwatch>(seconds));
  at::manual_seed(0);
  Tiny model;
  trainer.fit(model, data);
  return seconds;
}

double floor_block(const TinyData& data, std::int64_t steps) {
  at::manual_seed(0);
  Tiny model;  // for its layers only
  FloorAdam optimizer({{model.parameters()}}, 1e-3, 0.999, /*decoupled=*/false);
  const at::Tensor order = at::randperm(data.x.size(0), at::detail::createCPUGenerator(0), at::kLong);
  const SteadyClock clock;
  double begin = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == kWarmup) begin = clock.now();
    const at::Tensor index = order.narrow(0, step * kBatch, kBatch);
    const at::Tensor loss = model.loss(data.x.index_select(0, index), data.y.index_select(0, index));
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return clock.now() - begin;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  std::map<std::string, std::int64_t> settings{{"--pairs", 7}, {"--steps", 20000}};
  for (int i = 1; i + 1 < argc; i += 2) settings[argv[i]] = std::atoll(argv[i + 1]);
  const std::int64_t steps = std::max(settings["--steps"], kWarmup + 1);
  const auto measured = static_cast<double>(steps - kWarmup);

  const int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);  // the bar and the log are written, and read by nobody
  const std::unique_ptr<World> world = make_world();
  const Log log(0);
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("cxtrain_overhead_" + std::to_string(getpid()));
  TinyData data(steps * kBatch);
  std::vector<double> trainer, floor, overhead, profiler;
  for (std::int64_t pair = 0; pair < settings["--pairs"]; ++pair) {
    // The one that comes first takes turns too.
    double a = 0, b = 0, c = 0;
    if (pair % 2 == 1)
      b = floor_block(data, steps), c = trainer_block(*world, data, folder, Profiler::simple);
    a = trainer_block(*world, data, folder);
    if (pair % 2 == 0)
      c = trainer_block(*world, data, folder, Profiler::simple), b = floor_block(data, steps);
    trainer.push_back(a / measured * 1e6);
    floor.push_back(b / measured * 1e6);
    overhead.push_back(trainer.back() - floor.back());
    profiler.push_back((c - a) / measured * 1e6);
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "{\"trainer_us\": %.3f, \"floor_us\": %.3f, \"overhead_us\": %.3f, \"profiler_us\": %.3f, "
      "\"pairs\": %zu, \"steps\": %lld}\n",
      median(trainer), median(floor), median(overhead), median(profiler), overhead.size(),
      static_cast<long long>(steps));
  return 0;
}
