#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/equal.h>
#include <torch/nn/modules/batchnorm.h>

#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// What a user's model does in the middle of a training means the same on several ranks as on one.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

RunSummary train(World& world, Module& model, std::int64_t batch_size, Options options,
                 std::unique_ptr<Callback> callback = nullptr) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  ToyData data(16 * test_world().size(), batch_size, 16);
  Trainer trainer(world, options);
  if (callback) trainer.add_callback(std::move(callback));
  return trainer.fit(model, data);
}

RunSummary train_together(Module& model, const Options& options,
                          std::unique_ptr<Callback> callback = nullptr) {
  return train(test_world(), model, 4, options, std::move(callback));
}
RunSummary train_alone(Module& model, const Options& options) {
  SoloWorld alone;
  return train(alone, model, 4 * test_world().size(), options);
}

Options divided_by(const std::string& strategy, Options options) {
  options.trainer.strategy = strategy.substr(0, strategy.find(' '));
  if (strategy == "ddp") options.strategy.args["shard_optimizer"] = "false";
  if (strategy == "ddp divided") options.strategy.args["shard_optimizer"] = "true";
  if (strategy == "zero 2") options.strategy.args["stage"] = "2";
  return options;
}

TEST_CASE("what is unfrozen in a later epoch is trained on all ranks alike") {
  class Unfreezing : public Regression {
   public:
    Unfreezing() {
      for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(false);
    }
    void on_train_epoch_start() override {
      if (current_epoch() == 1) {
        for (at::Tensor& parameter : first->parameters()) parameter.set_requires_grad(true);
      }
      if (current_epoch() == 2) second->bias.set_requires_grad(false);
    }
  };
  Options options = test::quiet("");
  options.trainer.max_epochs = 3;
  Unfreezing together, alone;
  const at::Tensor before = together.first->weight.detach().clone();
  train_together(together, divided_by(GENERATE("ddp", "ddp divided", "zero 2"), options));
  train_alone(alone, options);
  CHECK_FALSE(at::equal(together.first->weight, before));
  CHECK(at::allclose(test::flat_parameters(together), test::flat_parameters(alone), 1e-5, 1e-7));
}

TEST_CASE("a parameter that is unfrozen within a step is refused by name") {
  struct Late : Regression {
    Late() { first->bias.set_requires_grad(false); }
    void on_train_batch_start(const Batch&, std::int64_t idx) override {
      if (idx == 1) first->bias.set_requires_grad(true);
    }
  };
  Options options = divided_by(GENERATE("ddp", "ddp divided"), test::quiet(""));
  options.trainer.accumulate_grad_batches = 2;
  Late model;
  CHECK_THAT(test::error_of<TrainingError>([&] { train_together(model, options); }),
             test::contains("first.bias") && test::contains("unfrozen"));
}

TEST_CASE("what a hook writes to the parameters counts once, whichever rank writes first") {
  /// One rank after the other decays all parameters, past autograd's eyes in each second step, and limits
  /// them after the gradients are there.
  class Decays : public Callback {
   public:
    void on_train_batch_start(Run& run, const Batch&, std::int64_t batch_idx) override {
      const at::NoGradGuard no_grad;
      for (int turn = 0; turn < run.world().size(); ++turn) {
        if (turn == run.rank()) {
          for (const at::Tensor& parameter : run.module().parameters())
            (batch_idx % 2 == 0 ? parameter.data() : parameter).mul_(0.9);
        }
        run.world().barrier();
      }
    }
    void on_before_optimizer_step(Run& run, OptimizerRef&) override {
      const at::NoGradGuard no_grad;
      for (const at::Tensor& parameter : run.module().parameters()) parameter.clamp_(-0.3, 0.3);
    }
  };
  Options options = test::quiet("");
  Regression together, alone;
  const RunSummary summary = train_together(
      together, divided_by(GENERATE("ddp", "ddp divided", "zero 2"), options), std::make_unique<Decays>());
  CHECK(summary.parameters_equal_on_all_ranks == true);
  SoloWorld solo;
  train(solo, alone, 4 * test_world().size(), options, std::make_unique<Decays>());
  CHECK(at::allclose(test::flat_parameters(together), test::flat_parameters(alone), 1e-5, 1e-7));
}

TEST_CASE("a hook that looks at gradients changes no step") {
  class Looks : public Callback {
   public:
    void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t) override {
      run.optimizers().front()->gradients();
    }
    void on_after_backward(Run& run) override { run.optimizers().front()->gradients(); }
  };
  const Options options = divided_by(GENERATE("ddp", "ddp divided", "zero 2"), test::quiet(""));
  Regression looked_at, alone;
  train_together(looked_at, options, std::make_unique<Looks>());
  train_together(alone, options);
  CHECK(at::equal(test::flat_parameters(looked_at), test::flat_parameters(alone)));
}

TEST_CASE("ranks that skip a batch are left out of the average, and steps that all skip do not happen") {
  /// Rank 0 has a loss in each second batch, the others in none. Everywhere the samples are the same.
  class Skipping : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t idx) override {
      if (idx % 2 == 1 || global_rank() > 0) return {};
      return Regression::training_step(batch, idx);
    }
  };
  Options options = test::quiet("");
  options.trainer.use_distributed_sampler = false;
  Skipping together, alone;
  const RunSummary summary = train(test_world(), together, 8, options);
  SoloWorld solo;
  const RunSummary expected = train(solo, alone, 8, options);
  CHECK(summary.global_step == expected.global_step);
  CHECK(at::allclose(test::flat_parameters(together), test::flat_parameters(alone), 1e-5, 1e-7));
}

TEST_CASE("decisions on a value that each rank has for itself are the same on all ranks") {
  /// What rank 0 logs improves for ever, what the others log gets worse twice as fast.
  class Diverging : public Regression {
   public:
    explicit Diverging(bool plateau)
        : Regression({.optimizer = Sgd{.lr = 0.1},
                      .schedule = plateau ? ScheduleConfig(PlateauSchedule{.monitor = "own", .patience = 0})
                                          : ScheduleConfig(ConstantSchedule{})}) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("own", static_cast<double>(global_step()) * (global_rank() == 0 ? -1.0 : 2.0));
      return loss(batch);
    }
  };
  Options options = test::quiet("");
  options.trainer.max_epochs = 6;
  {
    Diverging model(/*plateau=*/false);
    const RunSummary summary =
        train_together(model, options,
                       std::make_unique<EarlyStopping>(EarlyStopping::Args{.monitor = "own", .patience = 2}));
    CHECK(summary.epochs == (test_world().size() == 1 ? 6 : 3));
  }
  // The trainer compares the ranks' parameters at the end: learning rates that differ would show. The means
  // over ranks are what one process would have to log for the same rates.
  class Means : public Regression {
   public:
    explicit Means(int ranks)
        : Regression({.optimizer = Sgd{.lr = 0.1},
                      .schedule = ScheduleConfig(PlateauSchedule{.monitor = "own", .patience = 0})}),
          slope_((2.0 * (ranks - 1) - 1.0) / ranks) {}
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("own", static_cast<double>(global_step()) * slope_);
      return loss(batch);
    }

   private:
    double slope_;
  };
  Diverging together(/*plateau=*/true);
  train_together(together, options);
  Means alone(test_world().size());
  train_alone(alone, options);
  CHECK(at::allclose(test::flat_parameters(together), test::flat_parameters(alone), 1e-5, 1e-7));
}

TEST_CASE("sync_dist makes a step's value that of all ranks") {
  class Ranked : public Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("mean_rank", static_cast<double>(global_rank()), {.sync_dist = true});
      log("max_rank", static_cast<double>(global_rank()), {.reduce_fx = ReduceFx::max, .sync_dist = true});
      log("ranks", 1.0, {.reduce_fx = ReduceFx::sum, .sync_dist = true});
      log("own_rank", static_cast<double>(global_rank()));
      return loss(batch);
    }
    void validation_step(const Batch& batch, std::int64_t) override {
      log("samples", static_cast<double>(batch.size), {.reduce_fx = ReduceFx::sum});
      log("first_rank", static_cast<double>(global_rank()), {.reduce_fx = ReduceFx::min});
    }
  };
  Options options = test::quiet("");
  options.trainer.log_every_n_steps = 1;
  Ranked model;
  const auto metrics = train_together(model, options).metrics;
  const int size = test_world().size();
  CHECK(metrics.at("mean_rank") == (size - 1) / 2.0);
  CHECK(metrics.at("max_rank") == size - 1);
  CHECK(metrics.at("ranks") == size);
  CHECK(metrics.at("own_rank") == test_world().rank());
  CHECK(metrics.at("samples") == 16);
  CHECK(metrics.at("first_rank") == 0);
}

TEST_CASE("weight averaging takes batch norm's statistics from the samples of all ranks") {
  /// Ranks see inputs of different mean.
  class Normed : public Regression {
   public:
    Normed() { norm = register_module("norm", torch::nn::BatchNorm1d(6)); }
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      const at::Tensor shifted = batch[0].mul(0).add(static_cast<double>(global_rank()));
      return loss(batch) + norm->forward(shifted).sum() * 0;
    }
    torch::nn::BatchNorm1d norm{nullptr};
  };
  Options options = test::quiet("");
  options.trainer.stochastic_weight_avg = true;
  options.trainer.max_epochs = 2;
  const bool of_all_ranks = GENERATE(false, true);  // each batch's statistics
  options.trainer.sync_batchnorm = of_all_ranks;
  Normed model;
  train_together(model, options);
  const double ranks = test_world().size();
  // Every rank's samples are all equal to its number.
  CHECK(at::allclose(model.norm->running_mean, at::full({6}, (ranks - 1) / 2)));
  const double samples = 4 * ranks;  // of a batch, over which torch's running variance is unbiased
  const double variance = (ranks * ranks - 1) / 12 * (of_all_ranks ? samples / (samples - 1) : 1);
  CHECK(at::allclose(model.norm->running_var, at::full({6}, variance), 1e-5, 1e-6));
}

}  // namespace
}  // namespace cxtrain
