#include "cxtrain/trainer/trainer.h"

#include "cxtrain/cluster/agree.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/trainer/compute_settings.h"
#include "cxtrain/trainer/evaluation_loop.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/session.h"

namespace cxtrain {
namespace {

/// Everything about the options that can be decided without the other ranks.
Plan decide(const Options& options, const World& world) {
  Plan plan = resolve(options, probe_hardware(), world.facts());
  if (!plan.ok()) throw ConfigError(plan.errors);
  if (plan.launcher == "subprocess" || plan.launcher == "spawn") {
    throw ConfigError("trainer.strategy",
                      plan.strategy + " on " + std::to_string(plan.world_size) +
                          " devices needs as many ranks, and this process was started alone",
                      "mpirun -np " + std::to_string(plan.world_size) + " cxtrain_mpi ...");
  }
  if (plan.sync_batchnorm) {
    throw ConfigError("trainer.sync_batchnorm", "is not available yet",
                      "leave it off: each rank uses its own batch");
  }
  return plan;
}

}  // namespace

Trainer::Trainer(World& world, TrainerOptions options)
    : Trainer(world, [&] {
        Options all;
        all.trainer = std::move(options);
        return all;
      }()) {}

Trainer::Trainer(World& world, Options options, Registry registry)
    : world_(world), options_(std::move(options)), registry_(std::move(registry)) {
  run_agreed(world_, [this] {
    plan_ = decide(options_, world_);
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
  Run& run = session.run();
  const auto train = session.loader(data.train_dataloader(), /*training=*/true);
  const auto val = session.loader(data.val_dataloader(), /*training=*/false);
  FitLimits limits;
  std::optional<Optimization> optimization;
  run_agreed(world_, [&] {
    if (!train) throw ConfigError("data", "has no training samples");
    limits = fit_limits(options_.trainer, module.trainer_defaults().max_epochs, train->num_batches(),
                        val ? val->num_batches() : 0);
    std::vector<Problem> problems;
    const OptimizerSetup setup =
        apply_overrides(module.configure_optimizers(), options_.optimizer, options_.lr_scheduler, problems);
    if (!problems.empty()) throw ConfigError(problems);
    optimization.emplace(run, setup, limits, session.precision().scale_gradients);
  });
  const AnomalyDetection anomalies(options_.trainer.detect_anomaly);
  FitLoop(run, *train, val.get(), limits, *optimization).run();
  return session.finish();
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
  session.run().log_row(evaluate(session.run(), stage, *loader, limit.apply(loader->num_batches())));
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
