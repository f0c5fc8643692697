#include "cxtrain/trainer/tuner.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "cxtrain/base/log.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/run_loaders.h"

namespace cxtrain {

Tuner::Tuner(Session& session, Module& module, DataModule& data)
    : session_(session), context_(session.context()), module_(module), data_(data) {}

LrFinderResult Tuner::lr_find(const LrSweep& sweep) {
  std::optional<NamedOptimizer> swept;
  run_agreed(context_.parts.world, [&] {
    const std::vector<NamedOptimizer> setups = optimizer_setups(module_, context_.parts.options);
    if (setups.size() > 1 || !module_.automatic_optimization) {
      throw ConfigError("trainer.auto_lr_find", "needs a model with one optimizer and automatic optimization",
                        "leave the option out", MessageCode::conflicting_options);
    }
    swept = setups.front();
  });
  LrFinderResult result = find_learning_rate(session_, data_, *std::move(swept), sweep);
  session_.folder().write("lr_find.csv", result.to_csv());
  return result;
}

std::int64_t Tuner::scale_batch_size(const BatchSizeSearch& search) {
  World& world = context_.parts.world;
  std::vector<NamedOptimizer> setups;
  run_agreed(world, [&] {
    const bool sync_batchnorm = session_.plan().sync_batchnorm;
    if (world.size() > 1 && (sync_batchnorm || !context_.parts.strategy.ranks_keep_whole_models())) {
      throw ConfigError("trainer.auto_scale_batch_size",
                        std::string("a rank that runs out of memory would leave the other ranks waiting ") +
                            (sync_batchnorm ? "in their batch norms" : "for parts of the model"),
                        sync_batchnorm
                            ? "find the size without sync_batchnorm, and give it as --data.batch_size"
                            : "give the size as --data.batch_size",
                        MessageCode::out_of_memory);
    }
    setups = optimizer_setups(module_, context_.parts.options, context_.tuned.lr);
  });
  const FitLimits limits =
      FitData(world, RunLoaders(context_), data_, context_.parts.options.trainer, std::nullopt).limits();
  const Loaders loaders = data_.train_dataloader();
  // Its state takes memory from the first step on.
  const auto optimization = session_.make_optimization(context_, setups, limits);
  std::int64_t samples = std::numeric_limits<std::int64_t>::max();  // of the smallest dataset
  for (const DataLoaderSpec& spec : loaders.specs())
    samples = std::min(samples, spec.dataset ? spec.dataset->size() : samples);
  const std::int64_t most = std::max<std::int64_t>(1, samples / world.size());
  return find_batch_size(context_, *optimization, loaders, most, search);
}

void Tuner::tune() {
  const TrainerOptions& wanted = context_.parts.options.trainer;
  if (wanted.auto_scale_batch_size) {
    context_.tuned.batch_size = scale_batch_size({.mode = *wanted.auto_scale_batch_size});
    log_info("auto_scale_batch_size: training with --data.batch_size " +
             std::to_string(*context_.tuned.batch_size));
  }
  if (!wanted.auto_lr_find) return;
  context_.tuned.lr = lr_find({}).suggestion();
  if (context_.tuned.lr) {
    log_info("auto_lr_find: training with --optimizer.lr " + format_metric(*context_.tuned.lr) +
             " (lr_find.csv has the curve)");
    if (context_.parts.world.is_root())
      log_event({.event = RunEvent::Kind::lr_found, .lr = context_.tuned.lr});
  } else {
    log_warning("auto_lr_find: too few finite losses to suggest a learning rate; the model's own is kept");
  }
}

}  // namespace cxtrain
