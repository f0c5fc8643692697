#include "cxtrain/trainer/tuner.h"

#include <ATen/core/Tensor.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/values.h"
#include "cxtrain/optim/overrides.h"
#include "cxtrain/optim/setup.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/trainer/batch_size_finder.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/model_snapshot.h"
#include "cxtrain/trainer/optimization.h"

namespace cxtrain {
namespace {

/// Returns the factor of the learning rate from one step to the next.
double growth_of(const LrSweep& sweep) {
  return std::pow(sweep.max_lr / sweep.min_lr, 1.0 / static_cast<double>(sweep.num_training));
}

/// Writes down rates and losses, and stops once the loss runs away.
class SweepRecorder final : public Callback {
 public:
  SweepRecorder(LrFinderResult& result, const LrSweep& sweep) : result_(result), sweep_(sweep) {}

  /// The optimizer's rate; parameter groups have their own in proportion.
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    rate_ = sweep_.min_lr * std::pow(growth_of(sweep_), run.global_step());
  }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch&, std::int64_t) override {
    const at::Tensor& loss = output.loss;
    std::array<double, 2> sum{loss.defined() ? loss.item<double>() : 0.0, loss.defined() ? 1.0 : 0.0};
    run.world().sum(sum);
    losses_ += sum[0];
    ranks_ += sum[1];
    if (!run.progress().stepped) return;
    const double loss_of_step = std::exchange(losses_, 0) / std::exchange(ranks_, 0);
    constexpr double kBeta = 0.98;
    const auto steps = static_cast<double>(result_.rates.size() + 1);
    average_ = kBeta * average_ + (1 - kBeta) * loss_of_step;
    const double smoothed = average_ / (1 - std::pow(kBeta, steps));
    result_.rates.push_back(rate_);
    result_.losses.push_back(smoothed);
    const double threshold = sweep_.early_stop_threshold;
    if (threshold > 0 && steps > 1 && !(smoothed <= threshold * best_))
      run.request_stop("", RequestedBy::all_ranks);
    if (steps == 1 || smoothed < best_) best_ = smoothed;
  }

 private:
  LrFinderResult& result_;
  const LrSweep& sweep_;
  double losses_ = 0, ranks_ = 0;  ///< of the micro-batches of a step
  double rate_ = 0, average_ = 0, best_ = 0;
};

Options trial_options(const Options& options, const LrSweep& sweep) {
  Options trial = options;
  trial.trainer.max_epochs = -1;
  trial.trainer.max_steps = sweep.num_training;
  trial.trainer.max_time.reset();
  trial.trainer.min_epochs = trial.trainer.min_steps = 0;
  trial.trainer.limit_val_batches = BatchLimit{std::int64_t{0}};
  trial.trainer.num_sanity_val_steps = 0;
  trial.trainer.track_grad_norm = -1;
  trial.trainer.terminate_on_nan = false;  // running away is what ends the sweep
  return trial;
}

/// Trains with the sweep, from the model as it is, and puts the model back. Ranks see the same losses and so
/// come to the same result. Groups with a learning rate of their own keep their ratio to the others. The
/// state of the session's run stays as it is. Collective.
LrFinderResult find_learning_rate(Session& session, NamedOptimizer swept, const LrSweep& sweep) {
  const TrainContext::Parts& parts = session.context().parts;
  const Options options = trial_options(parts.options, sweep);
  TrainContext context({parts.world, options, parts.plan, parts.module, parts.data, parts.strategy,
                        parts.device, parts.generators, parts.input_dtype, parts.files});
  context.state.seed = options.seed.value_or(0);
  context.tuned = session.context().tuned;
  LrFinderResult result;
  context.hooks.add(std::make_unique<SweepRecorder>(result, sweep));

  swept.frequency = 1;
  swept.setup = with_learning_rate(std::move(swept.setup), sweep.min_lr);
  swept.setup.interval = Interval::step;
  swept.setup.schedule = ExponentialSchedule{.gamma = growth_of(sweep)};
  FitData loaders(context, /*model_max_epochs=*/std::nullopt);
  const auto optimization = session.make_optimization(context, {std::move(swept)}, loaders.limits());
  const ModelSnapshot snapshot(parts, *optimization);
  // Attaches the model to its session again, before the sweep's context ends.
  const auto attached = c10::make_scope_exit([&session] { session.attach(); });
  attach(parts.module, &context.metrics, &context.run);
  context.metrics.model_metrics().set(trainable(parts.module).all_metrics());
  FitLoop(context, loaders, *optimization, {}).train();
  snapshot.restore();
  return result;
}

}  // namespace

std::optional<double> LrFinderResult::suggestion(std::size_t skip_begin, std::size_t skip_end) const {
  std::vector<double> finite, rates_of_finite;
  for (std::size_t i = skip_begin; i + skip_end < losses.size(); ++i) {
    if (!std::isfinite(losses[i])) continue;
    finite.push_back(losses[i]);
    rates_of_finite.push_back(rates[i]);
  }
  if (finite.size() < 2) return std::nullopt;
  // Differences as numpy.gradient takes them: central, one-sided at the ends.
  const auto slope = [&](std::size_t i) {
    const std::size_t low = i == 0 ? 0 : i - 1, high = std::min(i + 1, finite.size() - 1);
    return (finite[high] - finite[low]) / static_cast<double>(high - low);
  };
  std::size_t steepest = 0;
  for (std::size_t i = 1; i < finite.size(); ++i) {
    if (slope(i) < slope(steepest)) steepest = i;
  }
  return rates_of_finite[steepest];
}

std::string LrFinderResult::to_csv() const {
  std::string text = "lr,loss\n";
  for (std::size_t i = 0; i < rates.size(); ++i) {
    text += format_real(rates[i]) + "," + format_real(losses[i]) + "\n";
  }
  return text;
}

LrFinderResult lr_find(Session& session, const LrSweep& sweep) {
  const TrainContext& context = session.context();
  Module& module = context.parts.module;
  std::optional<NamedOptimizer> swept;
  run_agreed(context.parts.world, [&] {
    const std::vector<NamedOptimizer> setups = optimizer_setups(module, context.parts.options);
    if (setups.size() > 1 || !module.automatic_optimization) {
      throw ConfigError("trainer.auto_lr_find", "needs a model with one optimizer and automatic optimization",
                        "leave the option out", MessageCode::conflicting_options);
    }
    swept = setups.front();
  });
  LrFinderResult result = find_learning_rate(session, *std::move(swept), sweep);
  session.folder().write("lr_find.csv", result.to_csv());
  return result;
}

std::int64_t scale_batch_size(Session& session, const BatchSizeSearch& search) {
  TrainContext& context = session.context();
  World& world = context.parts.world;
  std::vector<NamedOptimizer> setups;
  run_agreed(world, [&] {
    const bool sync_batchnorm = session.plan().sync_batchnorm;
    if (world.size() > 1 && (sync_batchnorm || !context.parts.strategy.ranks_keep_whole_models())) {
      throw ConfigError("trainer.auto_scale_batch_size",
                        std::string("a rank that runs out of memory would leave the other ranks waiting ") +
                            (sync_batchnorm ? "in their batch norms" : "for parts of the model"),
                        sync_batchnorm
                            ? "find the size without sync_batchnorm, and give it as --data.batch_size"
                            : "give the size as --data.batch_size",
                        MessageCode::out_of_memory);
    }
    setups = optimizer_setups(context.parts.module, context.parts.options, context.tuned.lr);
  });
  const FitLimits limits = FitData(context, /*model_max_epochs=*/std::nullopt).limits();
  const Loaders loaders = context.parts.data.train_dataloader();
  // Its state takes memory from the first step on.
  const auto optimization = session.make_optimization(context, setups, limits);
  std::int64_t samples = std::numeric_limits<std::int64_t>::max();  // of the smallest dataset
  for (const DataLoaderSpec& spec : loaders.specs())
    samples = std::min(samples, spec.dataset ? spec.dataset->size() : samples);
  const std::int64_t most = std::max<std::int64_t>(1, samples / world.size());
  return find_batch_size(context, *optimization, loaders, most, search);
}

void tune(Session& session) {
  TrainContext& context = session.context();
  const TrainerOptions& wanted = context.parts.options.trainer;
  if (wanted.auto_scale_batch_size) {
    context.tuned.batch_size = scale_batch_size(session, {.mode = *wanted.auto_scale_batch_size});
    log_info("auto_scale_batch_size: training with --data.batch_size " +
             std::to_string(*context.tuned.batch_size));
  }
  if (!wanted.auto_lr_find) return;
  context.tuned.lr = lr_find(session, {}).suggestion();
  if (context.tuned.lr) {
    log_info("auto_lr_find: training with --optimizer.lr " + format_metric(*context.tuned.lr) +
             " (lr_find.csv has the curve)");
    if (context.parts.world.is_root()) log_event({.event = RunEvent::Kind::lr_found, .lr = context.tuned.lr});
  } else {
    log_warning("auto_lr_find: too few finite losses to suggest a learning rate; the model's own is kept");
  }
}

}  // namespace cxtrain
