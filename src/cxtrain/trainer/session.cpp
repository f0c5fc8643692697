#include "cxtrain/trainer/session.h"

#include <algorithm>
#include <exception>
#include <string_view>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/callbacks/file_requests.h"
#include "cxtrain/callbacks/report_progress.h"
#include "cxtrain/callbacks/stragglers.h"
#include "cxtrain/callbacks/wall_time.h"
#include "cxtrain/cluster/job_end.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/signal_number.h"
#include "cxtrain/device/open_file_count.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/chosen_checkpoint_folder.h"
#include "cxtrain/trainer/model_checks.h"
#include "cxtrain/trainer/rank_table.h"
#include "cxtrain/trainer/within_memory.h"

namespace cxtrain {
namespace {

void add_section(Hyperparameters& all, const std::string& section, const Hyperparameters& values) {
  for (const auto& [name, value] : values) all[section + "." + name] = value;
}

/// The arguments of model and data, by the names of options.
Hyperparameters arguments_of(const Module& module, const DataModule& data) {
  Hyperparameters all;
  add_section(all, "model", module.hparams());
  add_section(all, "data", data.hparams());
  return all;
}

/// Throws ConfigError if the training loaders have a stream that cannot be read.
void require_one_stream(const Loaders& loaders, const Plan& plan) {
  if (loaders.specs().size() > 1)
    throw ConfigError("data", "a training loader with a stream was found beside other training loaders",
                      "read the other data in the stream, too", MessageCode::conflicting_options);
  if (plan.sync_batchnorm)
    throw ConfigError("trainer.sync_batchnorm",
                      "needs samples on every rank in every step, and the stream of a rank may end first",
                      "leave it out, or use a Dataset", MessageCode::conflicting_options);
}

}  // namespace

Session::Session(const SessionInputs& inputs, TrainerState& state, std::unique_ptr<Strategy> strategy,
                 Module& module, DataModule& data, Stage stage)
    : inputs_(inputs),
      state_(state),
      config_text_(inputs.config_text),
      module_(module),
      data_(data),
      stage_(stage),
      continues_(stage != Stage::fit && state.fitted),
      goes_on_in_place_(!continues_ && !inputs.log_dir.empty()),
      precision_(precision_policy(inputs.plan.precision, inputs.plan.amp_level)),
      strategy_context_{.world = inputs.world,
                        .plan = inputs.plan,
                        .options = inputs.options,
                        .precision = precision_,
                        .device = inputs.device,
                        .accelerator = inputs.accelerator},
      strategy_(std::move(strategy)) {
  if (inputs.plan.comm_hook) strategy_context_.make_comm_hook = [this] { return make_comm_hook(); };
  // A model that the options name has its arguments there.
  const Hyperparameters hparams = arguments_of(module, data);
  if (!config_text_.empty() && inputs.options.model.name.empty() && !hparams.empty())
    config_text_ += "hyperparameters:\n" + to_yaml(hparams, "  ");
}

void Session::open() {
  World& world = inputs_.world;
  open_log_dir();
  if (!goes_on_in_place_) open_files();
  run_agreed(world, [this] {
    make_replicas();
    if (inputs_.plan.channels_last) {
      module_.set_channels_last();
      for (const auto& replica : replicas_) replica->set_channels_last();
    }
    if (stage_ == Stage::fit || stage_ == Stage::tune) require_real_parameters(module_);
    choose_recomputation();
    strategy_->place(module_, strategy_context_);
    if (inputs_.options.trainer.enable_model_summary) layers_ = layer_rows(module_);
  });
  strategy_->connect();
  generators_.emplace(strategy_context_.devices);
  context_ = std::make_unique<TrainContext>(
      TrainContext::Parts{world, inputs_.options, inputs_.plan, module_, data_, *strategy_, inputs_.device,
                          *generators_, precision_.module_dtype, inputs_.files, state_.log_dir});
  state_.running = context_.get();
  world.set_timeout(inputs_.options.timeout_seconds, [this] { return context_->where(); });
  if (continues_) context_->state = *state_.fitted;
  context_->state.seed = inputs_.options.seed.value_or(0);
  context_->tuned = state_.tuned;
  context_->progress.stage = stage_;
  run_agreed(world, [this] { add_callbacks(); });
  attach();
  // The model is the same everywhere by now; dropout must not be.
  generators_->seed_apart(context_->state.seed, world.rank(), world.size());
  if (!goes_on_in_place_) add_loggers_and_announce();
  world.process_end().set_rescue([this](int exit_code) { fail(exit_code); });
  signals_.emplace(signal_number(inputs_.options.trainer.requeue_signal));
  context_->call(hooks::setup, stage_);
}

void Session::begin_files() {
  if (!goes_on_in_place_) return;
  open_files();
  add_loggers_and_announce();
}

void Session::add_loggers_and_announce() {
  if (!continues_) run_agreed(inputs_.world, [this] { make_plan_loggers(); });
  if (inputs_.world.is_root())
    for (const auto& logger : state_.loggers) context_->rows.loggers.add(*logger);
  for (const auto& logger : state_.plan_loggers) context_->rows.loggers.add(*logger);
  const Hyperparameters hparams = hyperparameters();
  if (stage_ == Stage::fit && inputs_.world.is_root() && !hparams.empty())
    context_->rows.loggers.log_hyperparams(hparams);
  announce();
  record_places();
}

/// Where a run has a folder, and its session has come so far.
bool Session::writes_files() const { return files_begun_ && !state_.log_dir.empty(); }

Session::~Session() {
  inputs_.world.process_end().set_rescue({});
  inputs_.world.set_timeout(inputs_.options.timeout_seconds, {});
  if (!context_) return;
  state_.running = nullptr;
  context_->parts.module.attach(nullptr, nullptr);
  state_.tuned = context_->tuned;
}

std::unique_ptr<CommHook> Session::make_comm_hook() const {
  const ChosenCommHook& chosen = *inputs_.plan.comm_hook;
  const auto seed = static_cast<std::uint64_t>(inputs_.options.seed.value_or(0));
  return inputs_.registry.make<CommHook>(chosen.name, chosen.arguments, {.seed = seed});
}

void Session::make_replicas() {
  const RankPlan& rank = inputs_.plan.ranks[static_cast<std::size_t>(inputs_.world.rank())];
  for (const std::string& device : rank.devices) strategy_context_.devices.emplace_back(device);
  if (strategy_context_.devices.empty()) strategy_context_.devices = {inputs_.device};
  const int wanted = inputs_.plan.replicas - 1;
  if (wanted > 0 && !inputs_.replica_factory) {
    throw ConfigError("trainer.strategy",
                      inputs_.plan.strategy + " keeps " + std::to_string(wanted + 1) +
                          " replicas of the model, and the trainer has no factory for them",
                      "trainer.set_replica_factory([] { return std::make_unique<MyModel>(); })",
                      MessageCode::conflicting_options);
  }
  for (int i = 0; i < wanted; ++i) {
    replicas_.push_back(inputs_.replica_factory());
    strategy_context_.replicas.push_back(replicas_.back().get());
  }
}

void Session::choose_recomputation() {
  const bool recompute = inputs_.plan.recompute_blocks;
  if (Blocks* const blocks = module_.blocks()) return blocks->set_recompute(recompute);
  if (!recompute) return;
  throw ConfigError("trainer.recompute_blocks", "needs a model in blocks, and this one has none",
                    "derive the model from cxtrain::ChainModule or cxtrain::BlockModule",
                    MessageCode::conflicting_options);
}

void Session::open_log_dir() {
  const Options& options = inputs_.options;
  if (!continues_) state_.log_dir.clear();
  // Who wants no logger wants no files.
  if (!options.trainer.logger) return;
  World& world = inputs_.world;
  // The other ranks wait meanwhile.
  const double patience = std::min(kRunLockPatience, options.timeout_seconds / 2);
  run_agreed(world, [&] {
    if (!world.is_root()) return;
    if (goes_on_in_place_) {
      state_.log_dir = inputs_.log_dir;
      lock_ = reopen_run_dir(inputs_.files, inputs_.log_dir, patience);
      return;
    }
    if (!continues_) state_.log_dir = make_version_dir(inputs_.files, options.trainer.default_root_dir);
    lock_ = take_run_folder(inputs_.files, state_.log_dir, patience);
  });
  state_.log_dir = world.broadcast(state_.log_dir);
  run_agreed(world, [&] {
    if (!world.is_root()) lock_ = join_run_folder(inputs_.files, state_.log_dir);
  });
}

void Session::open_files() {
  files_begun_ = true;
  const std::string& folder = state_.log_dir;
  if (continues_ || folder.empty()) return;
  run_agreed(inputs_.world, [&] {
    if (inputs_.log) inputs_.log->open_file(inputs_.files, folder);
    if (!inputs_.world.is_root()) return;
    if (goes_on_in_place_) remove_end_of_run(inputs_.files, folder);
    if (!config_text_.empty()) write_atomically(inputs_.files, folder + "/config.yaml", config_text_);
  });
}

void Session::add_callbacks() {
  for (const auto& callback : state_.callbacks) context_->add_callback(*callback);
  for (auto& callback : context_->parts.module.configure_callbacks())
    context_->add_callback(std::move(callback));
  for (const ChosenComponent& chosen : inputs_.plan.callbacks)
    context_->add_callback(inputs_.registry.make<Callback>(chosen.name, chosen.arguments));
  if (stage_ != Stage::fit) return;
  if (!state_.log_dir.empty() && !inputs_.options.trainer.barebones) {
    constexpr double kEvery = 10;  // s
    context_->add_callback(std::make_unique<ReportProgress>(
        progress_file(inputs_.files, chosen_checkpoint_folder(inputs_.options)), kEvery, context_->clock));
  }
  context_->add_callback(std::make_unique<FileRequests>(inputs_.files, context_->clock));
  std::optional<double> end = inputs_.world.is_root() ? ask_seconds_to_job_end() : seconds_to_job_end();
  if (end && *end <= 0) {  // the job runs: the variable is of another job, or says nothing
    log_warning("the end of the job's time, as SLURM_JOB_END_TIME says, lies in the past, and is not heeded");
    end.reset();
  }
  context_->add_callback(std::make_unique<WallTime>(end, context_->clock));
  // A rank with the most expensive layers would be the straggler of every step.
  if (inputs_.world.size() > 1 && !inputs_.options.trainer.barebones && !inputs_.plan.traits.divides_layers)
    context_->add_callback(std::make_unique<Stragglers>(inputs_.world));
}

void Session::make_plan_loggers() {
  state_.plan_loggers.clear();
  if (!inputs_.world.is_root()) return;
  const RunFolder folder{inputs_.files, state_.log_dir};
  for (const ChosenComponent& chosen : inputs_.plan.loggers)
    state_.plan_loggers.push_back(inputs_.registry.make<MetricLogger>(chosen.name, chosen.arguments, folder));
}

/// Also what the options say of the optimizer, the schedule and the batches.
Hyperparameters Session::hyperparameters() const {
  const Options& options = inputs_.options;
  Hyperparameters all = arguments_of(module_, data_);
  add_section(all, "optimizer", options.optimizer.args);
  add_section(all, "lr_scheduler", options.lr_scheduler.args);
  if (!options.optimizer.name.empty()) all["optimizer"] = options.optimizer.name;
  if (!options.lr_scheduler.name.empty()) all["lr_scheduler"] = options.lr_scheduler.name;
  if (options.data.batch_size) all["data.batch_size"] = std::to_string(*options.data.batch_size);
  return all;
}

void Session::announce() const {
  const TrainerOptions& options = inputs_.options.trainer;
  if (options.barebones) {
    for (const Problem& warning : inputs_.plan.warnings) log_warning(to_line(warning));
    return;
  }
  log_info(to_text(inputs_.plan));
  if (inputs_.world.is_root())
    log_event({.event = RunEvent::Kind::devices, .text = devices_text(inputs_.plan)});
  log_info("gradients: " + strategy_->describe());
  if (!state_.log_dir.empty()) log_info("writing to " + state_.log_dir);
  if (options.enable_model_summary) log_info(model_summary(layers_));
}

/// For the log's file: who looks for a slow node later asks where which rank was. Collective.
void Session::record_places() const {
  if (continues_ || inputs_.options.trainer.barebones) return;
  World& world = inputs_.world;
  const std::string table = gather_rank_table(world, inputs_.plan);
  const OpenFileCount own = open_file_count();
  const std::int64_t libraries = world.max(own.libraries), others = world.max(own.others);
  if (!world.is_root()) return;
  log_detail("where the ranks run\n" + table);
  log_detail("files that a rank holds open at the start, at most: " + std::to_string(libraries) +
             " programs and libraries, " + std::to_string(others) + " others");
}

void Session::require_samples_everywhere(const ShardedSampler& sampler) const {
  const std::int64_t last = sampler.last_global_size(), shards = sampler.shard().count;
  if (sampler.num_batches() == 0 || last >= shards) return;
  throw ConfigError("trainer.sync_batchnorm",
                    "needs samples on every rank in every step, but the epoch's last batch has " +
                        std::to_string(last) + " for " + std::to_string(shards) + " ranks",
                    "--data.uneven drop", MessageCode::conflicting_options);
}

void Session::attach() {
  context_->parts.module.attach(&context_->metrics, &context_->run);
  context_->metrics.model_metrics().set(context_->parts.module.all_metrics());
  for (const auto& replica : replicas_) replica->attach(nullptr, &context_->run);
}

FitData::Loaders Session::fit_loaders(DataModule& data) const {
  return {training_loader(data.train_dataloader()),
          evaluation_loaders(data.val_dataloader(), Stage::validate)};
}

std::unique_ptr<Optimization> Session::make_optimization(TrainContext& context,
                                                         const std::vector<NamedOptimizer>& setups,
                                                         const FitLimits& limits) const {
  World& world = inputs_.world;
  std::vector<OptimizerTarget> targets;
  run_agreed(world, [&] {
    targets = optimizer_targets(module_, setups);
    if (inputs_.device.is_cpu() && inputs_.plan.traits.memory != nullptr) {
      const ModelOutline outline{.module = module_, .targets = targets, .precision = precision_};
      const std::vector<RankMemory> memory = inputs_.plan.traits.memory(inputs_.plan, outline);
      require_memory_to_train(memory[static_cast<std::size_t>(world.rank())], world.facts().local_size);
    }
  });
  auto trained = strategy_->prepare(targets, backward_of(module_));
  give_back_freed_memory();  // parameters may have moved
  std::unique_ptr<Optimization> made;
  run_agreed(world, [&] {
    made = std::make_unique<Optimization>(context, setups, targets, std::move(trained), limits, precision_);
  });
  return made;
}

std::vector<std::unique_ptr<DataLoader>> Session::evaluation_loaders(const Loaders& loaders,
                                                                     Stage stage) const {
  if (loaders.mode().value_or(Combine::sequential) != Combine::sequential)
    throw ConfigError("data",
                      "the loaders of " + std::string(name_of(stage)) +
                          " have a mode that reads them side by side, and are read one after the other",
                      "leave the mode out", MessageCode::conflicting_options);
  std::vector<std::unique_ptr<DataLoader>> made;
  for (const DataLoaderSpec& spec : loaders.specs()) {
    const LoaderOptions options = loader_options(spec, stage, made.size());
    made.push_back(spec.stream ? stream_loader(spec, options)
                               : std::make_unique<DataLoader>(spec, sampler_of(spec, false), options));
  }
  return made;
}

std::unique_ptr<DataLoader> Session::training_loader(const Loaders& loaders,
                                                     std::optional<std::int64_t> batch_size) const {
  if (loaders.specs().empty()) return nullptr;
  const Combine mode = loaders.mode().value_or(Combine::max_size_cycle);
  if (loaders.specs().size() > 1 && mode != Combine::sequential && inputs_.plan.replicas > 1)
    throw ConfigError("trainer.strategy",
                      inputs_.plan.strategy + " divides each batch among its replicas, and a batch of " +
                          std::to_string(loaders.specs().size()) + " loaders cannot be divided",
                      "--strategy ddp", MessageCode::conflicting_options);
  LoaderOptions options = loader_options(loaders.specs()[0], Stage::fit, 0);
  for (const DataLoaderSpec& spec : loaders.specs()) {
    if (!spec.stream) continue;
    require_one_stream(loaders, inputs_.plan);
    return stream_loader(spec, options, batch_size);
  }
  std::vector<EpochBatches::Loader> read;
  for (const DataLoaderSpec& spec : loaders.specs()) {
    const std::string name = spec.name.empty() ? std::to_string(read.size()) : spec.name;
    read.push_back({spec.dataset, sampler_of(spec, /*training=*/true, batch_size), name});
    options.num_workers = std::max(options.num_workers, loader_options(spec, Stage::fit, 0).num_workers);
    if (inputs_.plan.sync_batchnorm) require_samples_everywhere(read.back().sampler);
  }
  return std::make_unique<DataLoader>(EpochBatches(std::move(read), mode), options);
}

ShardedSampler Session::sampler_of(const DataLoaderSpec& spec, bool training,
                                   std::optional<std::int64_t> batch_size) const {
  const Options& options = inputs_.options;
  SamplerOptions sampling;
  sampling.batch_size = batch_size_of(spec, batch_size);
  sampling.shuffle = spec.shuffle && options.trainer.overfit_batches.is_zero();
  sampling.seed = context_->state.seed;
  // Evaluation counts every sample once, on any number of ranks; padding would count some twice.
  sampling.uneven = training ? options.data.uneven : Uneven::exact;
  sampling.drop_last = spec.drop_last;
  if (options.trainer.overfit_batches.is_zero()) sampling.sampler = spec.sampler;
  return {spec.dataset->size(), shard(), sampling};
}

std::int64_t Session::batch_size_of(const DataLoaderSpec& spec,
                                    std::optional<std::int64_t> batch_size) const {
  if (!batch_size)
    batch_size = context_->tuned.batch_size ? context_->tuned.batch_size : inputs_.options.data.batch_size;
  return batch_size.value_or(spec.batch_size);
}

DataShard Session::shard() const {
  return inputs_.options.trainer.use_distributed_sampler ? strategy_->data_shard() : DataShard{};
}

std::unique_ptr<DataLoader> Session::stream_loader(const DataLoaderSpec& spec, const LoaderOptions& options,
                                                   std::optional<std::int64_t> batch_size) const {
  return std::make_unique<DataLoader>(
      std::make_unique<StreamReader>(spec.stream, batch_size_of(spec, batch_size), spec.drop_last),
      StreamContext{.shard = shard(), .seed = context_->state.seed}, options);
}

LoaderOptions Session::loader_options(const DataLoaderSpec& spec, Stage stage,
                                      std::size_t dataloader_idx) const {
  const DataOptions& options = inputs_.options.data;
  return {.num_workers = spec.num_workers.value_or(options.num_workers),
          .prefetch_factor = options.prefetch_factor,
          .stage = stage,
          .dataloader_idx = static_cast<int>(dataloader_idx),
          .to_device = !inputs_.device.is_cpu()};
}

void Session::write_file(const std::string& name, const std::string& content) const noexcept {
  if (!inputs_.world.is_root() || !writes_files()) return;
  try {
    write_atomically(inputs_.files, state_.log_dir + "/" + name, content);
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

void Session::write_predictions(const std::vector<Predictions>& predictions) const noexcept {
  if (state_.log_dir.empty()) return;
  try {
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const std::string path =
          state_.log_dir + "/" + predictions_file(inputs_.world.rank(), i, predictions.size());
      const std::vector<char> bytes = to_pt(predictions[i]);
      write_atomically(inputs_.files, path, {bytes.data(), bytes.size()});
      log_info("predictions of " + std::to_string(predictions[i].indices.size()) + " samples: " + path);
    }
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

/// What this rank knows by itself.
RunSummary Session::summary(const char* status, int exit_code) const {
  RunSummary summary;
  summary.status = status;
  summary.exit_code = exit_code;
  summary.world_size = inputs_.world.size();
  summary.strategy = inputs_.plan.strategy;
  summary.precision = precision_.name;
  summary.peak_memory_bytes = peak_resident_bytes();
  summary.pss_bytes = proportional_bytes();
  summary.peak_device_memory_bytes = peak_device_bytes(strategy_context_.devices);
  if (!context_) return summary;
  summary.epochs = context_->state.epoch;
  summary.global_step = context_->state.global_step;
  summary.metrics = context_->metrics.all();
  if (continues_) {  // what is said of the training was true at its end
    const RunSummary& fit = state_.fitted_summary;
    summary.metrics.insert(fit.metrics.begin(), fit.metrics.end());
    summary.seconds = fit.seconds;
    summary.samples_per_second = fit.samples_per_second;
    summary.samples_per_step = fit.samples_per_step;
    summary.first_step_seconds = fit.first_step_seconds;
    return summary;
  }
  summary.seconds = context_->training_seconds();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(context_->state.samples) / summary.seconds : 0;
  summary.samples_per_step = context_->progress.samples_per_step;
  summary.first_step_seconds = context_->first_step_seconds;
  return summary;
}

void Session::close_loggers() const noexcept {
  context_->rows.loggers.flush();
  if (const std::int64_t lost = context_->rows.loggers.lost_rows(); lost > 0) {
    log_warning(std::to_string(lost) + " rows of metrics could not be written");
  }
}

/// Fills in what the ranks find out together. A difference does not take from the user what the run has
/// reached.
void Session::compare_parameters(RunSummary& summary) const {
  World& world = inputs_.world;
  summary.parameters_sha256 = parameters_sha256(*strategy_);
  summary.peak_memory_bytes = world.max(summary.peak_memory_bytes);
  summary.pss_bytes = world.max(summary.pss_bytes);
  summary.peak_device_memory_bytes = world.max(summary.peak_device_memory_bytes);
  if (!strategy_->ranks_keep_whole_models()) return;  // nobody has a second copy to compare
  summary.parameters_equal_on_all_ranks = same_on_all_ranks(world, summary.parameters_sha256);
  if (*summary.parameters_equal_on_all_ranks) return;
  const std::vector<std::string> hashes = world.all_gather(summary.parameters_sha256);
  summary.parameters_sha256 = hashes[0];
  std::vector<int> others;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hashes[0]) others.push_back(static_cast<int>(rank));
  }
  log_warning("THE RANKS HAVE DRIFTED APART: at the end rank" +
              (others.size() == 1 ? " " + std::to_string(others[0]) + " has"
                                  : "s " + shortened(format_ranges(others), 200) + " have") +
              " other parameters or buffers than rank 0. What counts is rank 0's, and run.json says "
              "parameters_equal_on_all_ranks: false. Look for a hook or an optimizer that is not the same on "
              "all ranks, "
              "a buffer that depends on the rank's data (trainer.sync_batchnorm), or GPUs of several models, "
              "which may "
              "round differently");
}

RunSummary Session::finish() {
  strategy_->agree_on_buffers();
  RunSummary result = summary("done", static_cast<int>(ExitCode::done));
  // The files come first: reading all parameters may take long, or fail with the device.
  close_loggers();
  write_file("run.json", to_json(result));
  compare_parameters(result);
  if (context_->state.global_step > 0) {
    state_.fitted = context_->state;
    state_.fitted_summary = result;
  }
  write_file("run.json", to_json(result));
  context_->call(hooks::teardown, stage_);
  strategy_->teardown();
  return result;
}

void Session::tell(const std::exception& error) noexcept {
  if (!context_) return;
  for (Callback* const callback : context_->callbacks) {
    try {
      callback->on_exception(context_->run, error);
    } catch (const std::exception& another) {
      log_warning("on_exception of a callback has failed: " + message_of(another));
    }
  }
}

RunSummary Session::stop(const Interrupted& signal) {
  context_->rows.write_pending();
  RunSummary result = summary("stopped", static_cast<int>(signal.code()));
  result.stopped_by = signal.by();
  close_loggers();
  write_file("run.json", to_json(result));
  result.parameters_sha256 = parameters_sha256(*strategy_);
  write_file("run.json", to_json(result));
  strategy_->teardown();
  return result;
}

void Session::fail(int exit_code) noexcept {
  if (!inputs_.world.is_root() || !writes_files()) return;
  try {
    if (context_) context_->rows.loggers.flush();
    write_file("run.json", to_json(summary("failed", exit_code)));
  } catch (...) {
    // A metric on a device that has failed cannot be read.
  }
}

}  // namespace cxtrain
