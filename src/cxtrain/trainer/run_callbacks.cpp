#include "cxtrain/trainer/run_callbacks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/outside_requests.h"
#include "cxtrain/callbacks/report_progress.h"
#include "cxtrain/callbacks/stragglers.h"
#include "cxtrain/cluster/slurm_time.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/chosen_checkpoint_folder.h"

namespace cxtrain {
namespace {

/// Seconds until the batch system ends the job; absent without a limit.
std::optional<double> remaining_seconds(const World& world) {
  const std::optional<double> end = world.is_root() ? ask_seconds_to_job_end() : seconds_to_job_end();
  if (!end || *end > 0) return end;
  // The job runs: the variable is of another job, or says nothing.
  log_warning("the end of the job's time, as SLURM_JOB_END_TIME says, lies in the past, and is ignored");
  return std::nullopt;
}

void add_callbacks_of_fit(TrainContext& context) {
  const TrainContext::Parts& parts = context.parts;
  const bool watched = !parts.options.trainer.barebones;
  if (watched && !parts.log_dir.empty()) {
    constexpr double kEvery = 10;  // s
    context.hooks.add(std::make_unique<ReportProgress>(
        progress_file(parts.files, chosen_checkpoint_folder(parts.options)), kEvery, context.clock));
  }
  context.hooks.add(std::make_unique<FileRequests>(parts.files, context.clock));
  context.hooks.add(std::make_unique<WallTime>(remaining_seconds(parts.world), context.clock));
  // A rank with the most expensive layers would be the straggler of every step.
  if (watched && parts.world.size() > 1 && !parts.plan.traits.divides_layers)
    context.hooks.add(std::make_unique<Stragglers>(parts.world));
}

/// In a validation the model has the average of one callback.
void require_one_average(const std::vector<Callback*>& callbacks) {
  const auto is_average = [](Callback* callback) { return dynamic_cast<Ema*>(callback) != nullptr; };
  if (std::ranges::count_if(callbacks, is_average) < 2) return;
  throw ConfigError("callbacks.ema",
                    "two callbacks average the parameters, and a validation can use one of them", "keep one",
                    MessageCode::conflicting_options);
}

}  // namespace

void add_run_callbacks(TrainContext& context, const std::vector<std::unique_ptr<Callback>>& of_user,
                       const Registry& registry) {
  for (const auto& callback : of_user) context.hooks.add(*callback);
  for (auto& callback : context.parts.module.configure_callbacks()) context.hooks.add(std::move(callback));
  for (const ChosenComponent& chosen : context.parts.plan.callbacks)
    context.hooks.add(registry.make<Callback>(chosen.name, chosen.arguments));
  require_one_average(context.hooks.callbacks());
  if (context.progress.stage == Stage::fit) add_callbacks_of_fit(context);
}

}  // namespace cxtrain
