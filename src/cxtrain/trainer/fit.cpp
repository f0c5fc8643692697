#include "cxtrain/trainer/fit.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/strategy/local_step.h"
#include "cxtrain/trainer/checkpoint_manager.h"
#include "cxtrain/trainer/data_fingerprint.h"
#include "cxtrain/trainer/fit_data.h"
#include "cxtrain/trainer/fit_loop.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/reshard_state.h"
#include "cxtrain/trainer/step_profile.h"
#include "cxtrain/trainer/tuner.h"
#include "cxtrain/trainer/weight_averaging.h"

namespace cxtrain {
namespace {

/// Empty on other ranks than the first, and where data may change while they train, each rank has its own, or
/// a stream is read.
std::string fingerprint_of_training(const World& world, const DataLoader& loader, const Options& options) {
  const bool of_each_rank = world.size() > 1 && loader.shard().count == 1;
  const bool reloaded = options.trainer.reload_dataloaders_every_n_epochs > 0;
  if (loader.is_stream() || !options.data.fingerprint || !world.is_root() || of_each_rank || reloaded)
    return {};
  const SteadyClock clock;
  const double began = clock.now();
  std::string text = to_text(fingerprint_of(loader.dataset(), clock));
  log_detail("training data: " + text + " (looked at for " +
             std::to_string(std::lround((clock.now() - began) * 1e6)) + " us)");
  return text;
}

void warn_of_untrained(const Module& module, const Optimization& optimization) {
  std::set<std::string> trained;
  for (const NamedTensor& parameter : optimization.parameters()) trained.insert(parameter.name);
  std::string names;
  for (const NamedTensor& parameter : trainable_parameters(trainable(module))) {
    if (parameter.tensor.requires_grad() && !trained.contains(parameter.name))
      names += (names.empty() ? "" : ", ") + parameter.name;
  }
  if (!names.empty()) log_warning("no optimizer has these parameters, which are not trained: " + names);
}

/// A fit, in an open session. The members are made in the order of `run`. Collective.
class Fit {
 public:
  /// The session outlives it. `from`: the training to resume; absent: a new one.
  Fit(Session& session, std::optional<LoadedCheckpoint> from)
      : session_(session), context_(session.context()), from_(std::move(from)) {}
  void run() {
    if (from_) {
      load_place_and_data(from_->state, context_);
    } else {
      tune(session_);
    }
    open_data();
    make_optimizer();
    // While the fit runs, autograd names the forward operation behind a NaN gradient; slow.
    using torch::autograd::AnomalyMode;
    const auto anomalies = c10::make_scope_exit(
        [was_on = AnomalyMode::is_enabled(), checked_nan = AnomalyMode::should_check_nan()] {
          AnomalyMode::set_enabled(was_on, checked_nan);
        });
    if (context_.parts.options.trainer.detect_anomaly) AnomalyMode::set_enabled(true, /*check_nan=*/true);
    open_checkpoints();
    loop_.emplace(context_, *loaders_, *optimization_,
                  FitLoop::OfFit{.checkpoints = &*checkpoints_, .resumed = from_.has_value()});
    session_.begin_files();
    announce();
    if (!session_.plan().profiler) return loop_->fit();
    run_profiled();
  }

 private:
  void open_data() {
    World& world = context_.parts.world;
    const Options& options = context_.parts.options;
    loaders_.emplace(context_, context_.parts.module.trainer_defaults().max_epochs);
    run_agreed(world, [this] { require_automatic_optimization(); });
    fingerprint_ = fingerprint_of_training(world, loaders_->train(), options);
    if (from_ && !loaders_->train().is_stream())
      require_data_of_checkpoint(world, from_->chosen.manifest.data, fingerprint_,
                                 loaders_->train().dataset());
  }

  /// In a manual optimization a rank without samples follows rank 0, whose stream may end first.
  void require_automatic_optimization() {
    const DataLoader& loader = loaders_->train();
    if (!loader.is_stream() || context_.parts.module.automatic_optimization || loader.shard().count == 1)
      return;
    throw ConfigError("model",
                      "steps its optimizers itself, and reads streams that may end at different times on " +
                          std::to_string(loader.shard().count) + " ranks",
                      "use automatic optimization, one rank, or a Dataset", MessageCode::conflicting_options);
  }

  void make_optimizer() {
    World& world = context_.parts.world;
    const Options& options = context_.parts.options;
    std::vector<NamedOptimizer> setups;
    run_agreed(world, [&] { setups = optimizer_setups(context_.parts.module, options, context_.tuned.lr); });
    optimization_ = session_.make_optimization(context_, setups, loaders_->limits());
    warn_of_untrained(context_.parts.module, *optimization_);
    if (!options.trainer.stochastic_weight_avg) return;
    run_agreed(world, [&] {
      context_.hooks.add(std::make_unique<StochasticWeightAveraging>(context_, *loaders_, *optimization_));
    });
  }

  void open_checkpoints() {
    checkpoints_.emplace(context_, *loaders_, *optimization_, session_.config_text(), fingerprint_);
    if (!from_) return;
    complete_state();
    checkpoints_->restore(std::move(from_->state), {context_.parts.files, from_->chosen.log_dir});
  }

  /// As many ranks may have divided the parameters in another way: under another strategy, or on other nodes.
  void complete_state() {
    World& world = context_.parts.world;
    const ChosenCheckpoint& chosen = from_->chosen;
    if (chosen.path.empty() || !world.any_rank(!covers(from_->state, optimization_->pieces()))) return;
    run_agreed(world, [&] {
      CheckpointReader reader(context_.parts.files, chosen.path, chosen.manifest);
      add_pieces_of_other_ranks(from_->state, reader, world);
    });
  }

  /// Called once the files are there: what is logged before is not in them.
  void announce() const {
    if (from_) {
      const std::string text = "resumed at " + context_.where();
      log_detail(text);
      if (context_.parts.world.is_root())
        log_event({.event = RunEvent::Kind::resumed, .step = context_.state.global_step, .text = text});
    }
    if (!context_.parts.options.trainer.barebones)
      log_info(context_.model_name() + ": " + loaders_->describe());
  }

  /// A run that a signal ends has its table, too: all ranks leave the loop alike.
  void run_profiled() {
    StepProfile profile(session_, loaders_->limits().total_steps());
    try {
      loop_->fit();
    } catch (const Interrupted&) {
      profile.report(/*exchange=*/nullptr);
      throw;
    }
    profile.report(optimization_->exchange());
  }

  Session& session_;
  TrainContext& context_;
  std::optional<LoadedCheckpoint> from_;
  std::string fingerprint_;  ///< of the training data, on rank 0; empty: none was taken
  std::optional<FitData> loaders_;
  std::unique_ptr<Optimization> optimization_;
  std::optional<CheckpointManager> checkpoints_;
  std::optional<FitLoop> loop_;
};

}  // namespace

std::function<void(Session&)> make_fit(std::optional<LoadedCheckpoint> from) {
  return [from = std::move(from), fit = std::shared_ptr<Fit>()](Session& session) mutable {
    fit = std::make_shared<Fit>(session, std::move(from));
    fit->run();
  };
}

}  // namespace cxtrain
