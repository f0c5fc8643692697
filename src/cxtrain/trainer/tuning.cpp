#include "cxtrain/base/log.h"
#include "cxtrain/cluster/agree.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/trainer/batch_size_finder.h"
#include "cxtrain/trainer/lr_finder.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/trainer.h"

/// What Lightning's Tuner does: tries something out before training, and leaves the model as it was.
namespace cxtrain {

LrFinderResult Trainer::sweep_learning_rate(Session& session, Module& module, DataModule& data,
                                            const LrSweep& sweep) {
  OptimizerSetup setup;
  run_agreed(world_, [&] { setup = optimizer_setup(module); });
  LrFinderResult result = find_learning_rate(
      session.run().parts, [&] { return session.fit_loaders(data); }, setup,
      session.precision().scale_gradients, sweep);
  session.attach();
  session.write_file("lr_find.csv", result.to_csv());
  return result;
}

std::int64_t Trainer::search_batch_size(Session& session, Module& module, DataModule& data,
                                        const BatchSizeSearch& search) {
  OptimizerSetup setup;
  run_agreed(world_, [&] {
    if (plan_.sync_batchnorm && world_.size() > 1) {
      throw ConfigError("trainer.auto_scale_batch_size",
                        "a rank that runs out of memory would leave the others waiting in their batch norms",
                        "find the size without sync_batchnorm, and give it as --data.batch_size");
    }
    setup = optimizer_setup(module);
  });
  const FitLimits limits =
      FitData(
          world_, [&] { return session.fit_loaders(data); }, options_.trainer, std::nullopt)
          .limits();
  const DataLoaderSpec spec = data.train_dataloader();
  // Its state takes memory from the first step on.
  Optimization optimization(session.run(), setup, session.run().parts.strategy.prepare(setup.optimizer),
                            limits, session.precision().scale_gradients);
  const std::int64_t most = std::max<std::int64_t>(1, spec.dataset->size() / world_.size());
  const std::int64_t found = find_batch_size(
      session.run(), optimization.trained(),
      [&](std::int64_t size) { return session.loader(spec, /*training=*/true, size); }, most, search);
  session.run().loop.learning_rates = nullptr;
  return found;
}

void Trainer::tune(Session& session, Module& module, DataModule& data) {
  const TrainerOptions& wanted = options_.trainer;
  if (wanted.fast_dev_run > 0) return;  // Lightning: a dry run is not tuned
  if (wanted.auto_scale_batch_size) {
    using Mode = BatchSizeSearch::Mode;
    const Mode mode = *wanted.auto_scale_batch_size == "binsearch" ? Mode::binsearch : Mode::power;
    options_.data.batch_size = search_batch_size(session, module, data, {.mode = mode});
    session.run().tuned.batch_size = options_.data.batch_size;
    log_info("auto_scale_batch_size: training with --data.batch_size " +
             std::to_string(*options_.data.batch_size));
  }
  if (!wanted.auto_lr_find) return;
  found_lr_ = sweep_learning_rate(session, module, data, {}).suggestion();
  session.run().tuned.lr = found_lr_;
  if (found_lr_) {
    log_info("auto_lr_find: training with --optimizer.lr " + format_metric(*found_lr_) +
             " (lr_find.csv has the curve)");
  } else {
    log_warning("auto_lr_find: too few finite losses to suggest a learning rate; the model's own is kept");
  }
}

LrFinderResult Trainer::lr_find(Module& module, DataModule& data, const LrSweep& sweep) {
  LrFinderResult result;
  in_session(Call::other, module, data,
             [&](Session& session) { result = sweep_learning_rate(session, module, data, sweep); });
  return result;
}

std::int64_t Trainer::scale_batch_size(Module& module, DataModule& data, const BatchSizeSearch& search) {
  std::int64_t found = 0;
  in_session(Call::other, module, data,
             [&](Session& session) { found = search_batch_size(session, module, data, search); });
  return found;
}

}  // namespace cxtrain
