#include "cxtrain/trainer/fit_data.h"

#include <map>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/trainer/data_module.h"
#include "cxtrain/trainer/run_loaders.h"
#include "cxtrain/trainer/train_context.h"

namespace cxtrain {
namespace {

/// The epoch before which a training that has come this far last made its loaders.
std::int64_t last_reload(const TrainState& state, std::int64_t every) {
  const std::int64_t begun = state.batch == 0 && state.epoch > 0 ? state.epoch - 1 : state.epoch;
  return every > 0 ? begun / every * every : 0;
}

}  // namespace

FitData::FitData(const TrainContext& context, std::optional<std::int64_t> model_max_epochs)
    : context_(context),
      model_max_epochs_(model_max_epochs),
      loaded_for_(
          last_reload(context.state, context.parts.options.trainer.reload_dataloaders_every_n_epochs)) {
  load();
}

void FitData::load() {
  World& world = context_.parts.world;
  DataModule& data = context_.parts.data;
  std::string own;
  run_agreed(world, [&] {
    loaders_ = {};  // the old ones' threads and memory first
    loaders_.train = training_loader(context_, data.train_dataloader());
    loaders_.val = evaluation_loaders(context_, data.val_dataloader(), Stage::validate);
    require_stream_options();
    if (!loaders_.train || (!loaders_.train->is_stream() && loaders_.train->dataset_size() == 0))
      throw ConfigError("data", "has no training samples", "", MessageCode::no_data);
    if (loaders_.train->num_batches() == 0) {
      throw ConfigError("data.batch_size",
                        "the " + std::to_string(loaders_.train->dataset_size()) +
                            " training samples make no batch on each of " + std::to_string(world.size()) +
                            " ranks, and incomplete ones are dropped",
                        "a smaller batch size, or fewer ranks", MessageCode::no_data);
    }
    own = "training: " + describe_length(*loaders_.train, world);
    std::vector<std::int64_t> val_batches;
    for (const auto& loader : loaders_.val) {
      val_batches.push_back(loader->num_batches());
      own += ", validation: " + describe_length(*loader, world);
      if (!loader->is_stream() && loader->dataset_size() == 0)
        log_warning("validation loader " + std::to_string(val_batches.size() - 1) +
                    " has no samples: nothing of it is validated");
    }
    limits_ = fit_limits(context_.parts.options.trainer, model_max_epochs_, loaders_.train->num_batches(),
                         val_batches);
  });
  require_same_data(world, own);
}

void FitData::require_stream_options() const {
  if (!loaders_.train || !loaders_.train->is_stream() ||
      !context_.parts.options.trainer.stochastic_weight_avg)
    return;
  throw ConfigError(
      "trainer.stochastic_weight_avg",
      "reads the training data once more at the end, on all ranks alike, and ranks may read streams "
      "of different lengths",
      "leave it out", MessageCode::conflicting_options);
}

std::string FitData::describe() const {
  const auto text = [](const DataLoader& loader, std::int64_t batches) {
    if (loader.is_stream())
      return "a stream" +
             (batches < kUnknownBatches ? " of up to " + std::to_string(batches) + " batches" : "");
    return std::to_string(loader.dataset_size()) + " samples in " + std::to_string(batches) +
           (batches == 1 ? " batch" : " batches");
  };
  std::string validation;
  for (std::size_t i = 0; i < loaders_.val.size(); ++i) {
    if (limits_.val_batches[i] == 0) continue;
    validation +=
        (validation.empty() ? "validation: " : ", ") + text(*loaders_.val[i], limits_.val_batches[i]);
  }
  return text(*loaders_.train, limits_.train_batches) + " a rank; " +
         (validation.empty() ? "no validation" : validation);
}

void FitData::prepare_epoch(std::int64_t epoch) {
  const std::int64_t every = context_.parts.options.trainer.reload_dataloaders_every_n_epochs;
  if (every <= 0 || epoch - loaded_for_ < every) return;
  load();
  loaded_for_ = epoch;
}

std::string describe_length(const DataLoader& loader, const World& world) {
  if (loader.is_stream()) return "a stream";
  const std::string batches = std::to_string(loader.num_batches()) + " batches";
  if (world.size() > 1 && loader.shard().count == 1) return batches;
  return std::to_string(loader.dataset_size()) + " samples in " + batches;
}

void require_same_data(World& world, const std::string& own) {
  if (same_on_all_ranks(world, own)) return;
  const std::vector<std::string> ranks = world.all_gather(own);
  std::map<std::string, std::string> ranks_of;  // by what they have
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::string& list = ranks_of[ranks[rank]];
    constexpr std::size_t kLongest = 40;
    if (list.size() < kLongest) list += (list.empty() ? "rank " : ", ") + std::to_string(rank);
  }
  const std::string text =
      joined(ranks_of, "; ", [](const auto& each) { return each.second + " has " + each.first; });
  throw AgreedError(
      ExitCode::refused, MessageCode::different_options,
      to_line({"data", "the ranks found different data, and would wait for each other: " + text,
               "every rank reads the same data and takes its share of it; see that the path shows "
               "the same files on every node"}));
}

}  // namespace cxtrain
