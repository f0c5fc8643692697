#include "cxtrain/trainer/trainer.h"

#include "cxtrain/cluster/agree.h"
#include "cxtrain/device/gather_hardware.h"
#include "cxtrain/launchers/launch.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/trainer/compute_settings.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/weight_averaging.h"

namespace cxtrain {
namespace {

Plan decide(World& world, const Options& options) {
  const Hardware hardware = gather_hardware(world);
  Plan plan;
  run_agreed(world, [&] {
    plan = resolve(options, hardware, world.facts());
    if (!plan.ok()) throw ConfigError(plan.errors);
  });
  return plan;
}

/// What a program that makes its own Trainer has to leave to its launcher, or to `run_main`.
void require_ranks(const Plan& plan, const World& world) {
  if (!needs_launch(plan, world.facts())) return;
  throw ConfigError("trainer.strategy",
                    plan.strategy + " on " + std::to_string(plan.world_size) +
                        " devices needs as many ranks, and this process was started alone",
                    "start it as `mpirun -np " + std::to_string(plan.world_size) +
                        " PROGRAM`, or let cxtrain::run_main be its main, which starts them itself");
}

}  // namespace

Trainer::Trainer(World& world, TrainerOptions options)
    : Trainer(world, [&] {
        Options all;
        all.trainer = std::move(options);
        return all;
      }()) {}

Trainer::Trainer(World& world, Options options, Registry registry)
    : Trainer(world, options, decide(world, options), std::move(registry)) {}

Trainer::Trainer(World& world, Options options, Plan plan, Registry registry)
    : world_(world), options_(std::move(options)), plan_(std::move(plan)), registry_(std::move(registry)) {
  run_agreed(world_, [this] {
    require_ranks(plan_, world_);
    device_ = at::Device(plan_.ranks.at(static_cast<std::size_t>(world_.rank())).device);
    PluginLoader loader(registry_);
    for (const std::string& file : options_.plugins) loader.load(file);
    loader.require(Strategy::kKind, plan_.strategy);
  });
  world_.set_timeout(options_.timeout_seconds, {});
  apply_compute_settings(plan_, world_.facts(), device_);
}

Trainer::~Trainer() = default;

RunSummary Trainer::fit(Module& module, DataModule& data) {
  run_agreed(world_, [&] { data.setup(options_.data); });
  Session session(*this, module);
  tune(session, module, data);
  Run& run = session.run();
  std::optional<FitData> loaders;
  OptimizerSetup setup;
  run_agreed(world_, [&] {
    loaders.emplace([&] { return session.fit_loaders(data); }, options_.trainer,
                    module.trainer_defaults().max_epochs);
    setup = optimizer_setup(module);
  });
  run.parts.strategy.setup_optimizer(setup.optimizer);
  std::optional<Optimization> optimization;
  run_agreed(world_, [&] {
    optimization.emplace(run, setup, loaders->limits(), session.precision().scale_gradients);
    if (options_.trainer.stochastic_weight_avg) {
      run.callbacks.push_back(std::make_unique<StochasticWeightAveraging>(run, *loaders, *optimization));
    }
  });
  const AnomalyDetection anomalies(options_.trainer.detect_anomaly);
  FitLoop(run, *loaders, *optimization).fit();
  return session.finish();
}

OptimizerSetup Trainer::optimizer_setup(Module& module) const {
  std::vector<Problem> problems;
  OptimizerSetup setup =
      apply_overrides(module.configure_optimizers(), options_.optimizer, options_.lr_scheduler, problems);
  if (!problems.empty()) throw ConfigError(problems);
  return found_lr_ ? with_learning_rate(std::move(setup), *found_lr_) : setup;
}

RunSummary Trainer::evaluate_once(Module& module, DataModule& data, bool test) {
  run_agreed(world_, [&] { data.setup(options_.data); });
  Session session(*this, module);
  const auto loader =
      session.loader(test ? data.test_dataloader() : data.val_dataloader(), /*training=*/false);
  if (!loader)
    throw ConfigError("data", std::string("has no ") + (test ? "test" : "validation") + " samples");
  const BatchLimit& limit = test ? options_.trainer.limit_test_batches : options_.trainer.limit_val_batches;
  const EvaluationStage stage = test ? EvaluationStage::test : EvaluationStage::validate;
  const auto values = evaluate(session.run(), stage, *loader, limit.apply(loader->num_batches()));
  run_agreed(world_, [&] {
    if (!values) throw StepNotDefined(test ? "test" : "validate", test ? "test_step" : "validation_step");
  });
  session.run().log_row(*values);
  return session.finish();
}

RunSummary Trainer::validate(Module& module, DataModule& data) { return evaluate_once(module, data, false); }
RunSummary Trainer::test(Module& module, DataModule& data) { return evaluate_once(module, data, true); }

RunSummary Trainer::predict(Module& module, DataModule& data) {
  run_agreed(world_, [&] { data.setup(options_.data); });
  Session session(*this, module);
  const auto loader = session.loader(data.predict_dataloader(), /*training=*/false);
  if (!loader) throw ConfigError("data", "has no samples to predict");
  predictions_ = cxtrain::predict(session.run(), *loader,
                                  options_.trainer.limit_predict_batches.apply(loader->num_batches()));
  return session.finish();
}

}  // namespace cxtrain
