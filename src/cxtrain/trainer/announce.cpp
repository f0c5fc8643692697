#include "cxtrain/trainer/announce.h"

#include <cstdint>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/open_file_count.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/rank_table.h"

namespace cxtrain {
namespace {

void add_section(Hyperparameters& all, const std::string& section, const Hyperparameters& values) {
  for (const auto& [name, value] : values) all[section + "." + name] = value;
}

}  // namespace

Hyperparameters arguments_of(const Module& module, const DataModule& data) {
  Hyperparameters all;
  add_section(all, "model", module.hparams());
  add_section(all, "data", data.hparams());
  return all;
}

Hyperparameters hyperparameters_of(const TrainContext& context) {
  const Options& options = context.parts.options;
  Hyperparameters all = arguments_of(context.parts.module, context.parts.data);
  add_section(all, "optimizer", options.optimizer.args);
  add_section(all, "lr_scheduler", options.lr_scheduler.args);
  if (!options.optimizer.name.empty()) all["optimizer"] = options.optimizer.name;
  if (!options.lr_scheduler.name.empty()) all["lr_scheduler"] = options.lr_scheduler.name;
  if (options.data.batch_size) all["data.batch_size"] = std::to_string(*options.data.batch_size);
  return all;
}

void announce(const TrainContext& context, const std::vector<LayerRow>& layers) {
  const TrainContext::Parts& parts = context.parts;
  if (parts.options.trainer.barebones) {
    for (const Problem& warning : parts.plan.warnings) log_warning(to_line(warning));
    return;
  }
  log_info(to_text(parts.plan));
  if (parts.world.is_root()) log_event({.event = RunEvent::Kind::devices, .text = devices_text(parts.plan)});
  log_info("gradients: " + parts.strategy.describe());
  if (!parts.log_dir.empty()) log_info("writing to " + parts.log_dir);
  if (parts.options.trainer.enable_model_summary) log_info(model_summary(layers));
}

void record_places(World& world, const Plan& plan) {
  const std::string table = gather_rank_table(world, plan);
  const OpenFileCount own = open_file_count();
  const std::int64_t libraries = world.max(own.libraries), others = world.max(own.others);
  if (!world.is_root()) return;
  log_detail("where the ranks run\n" + table);
  log_detail("files that a rank holds open at the start, at most: " + std::to_string(libraries) +
             " programs and libraries, " + std::to_string(others) + " others");
}

}  // namespace cxtrain
