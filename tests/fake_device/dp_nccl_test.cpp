#include <ATen/ops/allclose.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "fake_run.h"
#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/temp_dir.h"

/// What no machine with one GPU, or none, can show of `dp`: replicas that have memory and generators of their
/// own.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;
using Fixture = test::TwoFakeDevices;

/// The parameters after 20 steps of this model. `replicas`: how many fake devices; 0: on the CPU.
template <class Model>
at::Tensor trained(
    int replicas, const OptimizerSetup& setup, std::int64_t seed = 0,
    const std::function<void(Options&)>& change = [](Options&) {}) {
  SoloWorld world;
  Options options = test::short_run(replicas > 0 ? "dp" : "single", std::to_string(std::max(replicas, 1)));
  options.seed = static_cast<std::uint64_t>(seed);
  change(options);
  ToyData data(96, 12);
  Model model(setup);
  if (replicas == 0) {
    Trainer trainer(world, options);
    trainer.fit(model, data);
    return test::flat_parameters(model);
  }
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  Trainer trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator);
  trainer.set_replica_factory([&] { return std::make_unique<Model>(setup); });
  trainer.fit(model, data);
  return test::flat_parameters(model).cpu();
}

TEST_CASE_METHOD(Fixture, "dp on devices of their own trains as one process does, with every optimizer") {
  for (const OptimizerConfig& optimizer :
       {OptimizerConfig(Sgd{.lr = 0.1}), OptimizerConfig(Sgd{.lr = 0.1, .momentum = 0.9}),
        OptimizerConfig(Adam{.lr = 0.01}), OptimizerConfig(AdamW{.lr = 0.01})}) {
    const OptimizerSetup setup{.optimizer = optimizer};
    const at::Tensor expected = trained<Regression>(0, setup);
    for (const int replicas : {2, 3}) {
      CAPTURE(replicas, optimizer.index());
      CHECK(at::allclose(trained<Regression>(replicas, setup), expected, 1e-4, 1e-6));
    }
  }
}

/// Twenty parameters, and buffers of two dtypes.
class Deep : public Regression {
 public:
  explicit Deep(const OptimizerSetup& setup) : Regression(setup) {
    for (int i = 0; i < 8; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(16, 16)));
    scale = register_buffer("scale", at::ones({16}));
    register_buffer("counted", at::zeros({}, at::kLong));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    at::Tensor x = first->forward(batch[0]);
    for (torch::nn::Linear& layer : layers) x = x + at::tanh(layer->forward(x));
    return torch::nn::functional::mse_loss(second->forward(x * scale), batch[1]);
  }
  std::vector<torch::nn::Linear> layers;
  at::Tensor scale;
};

TEST_CASE_METHOD(Fixture, "a step of dp is a message for each kind of tensor, not for each tensor") {
  /// NCCL's calls in the third step.
  struct Counting final : Callback {
    explicit Counting(const test::MovingNccl& counted) : nccl(counted) {}
    void on_train_batch_start(Run&, const Batch&, std::int64_t idx) override {
      if (idx == 2) before = nccl.calls().size();
    }
    void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t idx) override {
      if (idx != 2) return;
      const std::vector<std::string> all = nccl.calls();
      for (std::size_t i = before; i < all.size(); ++i) ++calls[all[i].substr(0, all[i].find(' '))];
    }
    const test::MovingNccl& nccl;
    std::size_t before = 0;
    std::map<std::string, int> calls;
  };
  const OptimizerSetup setup{.optimizer = AdamW{.lr = 0.01}};
  for (const int replicas : {2, 3}) {
    CAPTURE(replicas);
    const auto shorter = [](Options& options) { options.trainer.max_steps = 5; };
    SoloWorld world;
    Options options = test::short_run("dp", std::to_string(replicas));
    shorter(options);
    ToyData data(96, 12);
    Deep model(setup);
    test::FakeNcclAccelerator accelerator(test::kFakeDevices);
    Trainer trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator);
    trainer.set_replica_factory([&] { return std::make_unique<Deep>(setup); });
    auto counting = std::make_unique<Counting>(accelerator.nccl);
    Counting& counted = *counting;
    trainer.add_callback(std::move(counting));
    trainer.fit(model, data);
    // Of each device's member: parameters, and buffers of two dtypes; gradients.
    CHECK(counted.calls["broadcast"] == 3 * replicas);
    CHECK(counted.calls["reduce"] == replicas);
    CHECK(at::allclose(test::flat_parameters(model).cpu(), trained<Deep>(0, setup, 0, shorter), 1e-4, 1e-6));
  }
}

/// Writes down what its dropout keeps, on each device.
class Dropping : public Regression {
 public:
  using Regression::Regression;
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor kept = at::dropout(at::ones({64}, batch[0].options()), 0.5, /*train=*/true);
    {
      const std::lock_guard lock(mutex);
      masks[batch[0].device().index()].push_back(kept.detach().cpu());
    }
    return loss(batch) + 0 * kept.sum();
  }
  static inline std::mutex mutex;
  static inline std::map<int, std::vector<at::Tensor>> masks;
};

TEST_CASE_METHOD(Fixture, "every replica of dp drops other units, and --seed decides which") {
  const OptimizerSetup setup{.optimizer = Sgd{.lr = 0.1}};
  std::vector<std::map<int, std::vector<at::Tensor>>> runs;
  for (const std::int64_t seed : {1, 1, 2}) {
    Dropping::masks.clear();
    trained<Dropping>(3, setup, seed, [](Options& options) { options.trainer.max_steps = 3; });
    runs.push_back(Dropping::masks);
  }
  for (int replica = 0; replica < 3; ++replica) {
    CAPTURE(replica);
    REQUIRE(runs[0][replica].size() == 3);
    CHECK(at::equal(runs[0][replica][1], runs[1][replica][1]));
    CHECK_FALSE(at::equal(runs[0][replica][1], runs[2][replica][1]));
    for (int other = 0; other < replica; ++other)
      CHECK_FALSE(at::equal(runs[0][replica][1], runs[0][other][1]));
  }
}

TEST_CASE_METHOD(Fixture, "a step on a device with clipping, scaler and master weights reads nothing back") {
  struct Counting final : Callback {
    void on_train_batch_start(Run&, const Batch&, std::int64_t idx) override {
      if (idx == 2) reads.emplace();
    }
    void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t idx) override {
      if (idx < 6 || !reads) return;
      found = reads->names();
      reads.reset();
      ++counted;
    }
    std::optional<test::HostReads> reads;
    std::vector<std::string> found;
    int counted = 0;
  };
  for (const char* precision : {"32-true", "16-mixed", "bf16-mixed", "O2"}) {
    CAPTURE(precision);
    SoloWorld world;
    Options options = test::short_run("single");
    options.trainer.max_steps = 8;
    options.trainer.gradient_clip_val = 0.1;
    options.trainer.log_every_n_steps = 1000;
    // The plan's own words: on CPUs, which it is made for, 16-mixed is something else.
    const bool master_weights = std::string(precision) == "O2";
    test::FakeNcclAccelerator accelerator(test::kFakeDevices);
    ToyData data(96, 12);
    Regression model;
    Plan plan = test::on_fake_devices(world, options);
    plan.precision = master_weights ? "16-mixed" : precision;
    if (master_weights) plan.amp_level = "O2";
    Trainer trainer(world, options, plan, {}, &accelerator);
    auto counting = std::make_unique<Counting>();
    Counting& counts = *counting;
    trainer.add_callback(std::move(counting));
    trainer.fit(model, data);
    CHECK(counts.counted == 1);
    CHECK(counts.found == std::vector<std::string>{});
  }
}

TEST_CASE_METHOD(Fixture,
                 "the clocks of a run are read when the device has done its work, and its memory is told") {
  const test::TempDir dir;
  SoloWorld world;
  Options options = test::short_run("single");
  options.trainer.default_root_dir = dir.path();
  options.trainer.max_steps = 5;  // of the 8 of an epoch, whose end is another moment
  test::FakeNcclAccelerator accelerator(test::kFakeDevices);
  ToyData data(96, 12);
  Regression model;
  Trainer trainer(world, options, test::on_fake_devices(world, options), {}, &accelerator);
  const test::HostReads reads;
  const RunSummary summary = trainer.fit(model, data);
  const std::vector<std::string> names = reads.names();
  // Of the first step, and of the training.
  CHECK(std::count(names.begin(), names.end(), "synchronize device") == 2);
  CHECK(summary.peak_device_memory_bytes > 0);
}

}  // namespace
}  // namespace cxtrain
