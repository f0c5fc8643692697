#include "cxtrain/trainer/session.h"

#include <exception>
#include <iterator>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/callbacks/device_stats.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/learning_rate_monitor.h"
#include "cxtrain/callbacks/progress.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/cluster/agree.h"
#include "cxtrain/config/max_time.h"
#include "cxtrain/device/memory.h"
#include "cxtrain/report/csv_logger.h"
#include "cxtrain/report/jsonl_logger.h"
#include "cxtrain/report/model_summary.h"
#include "cxtrain/report/tensorboard_logger.h"
#include "cxtrain/report/version_dir.h"
#include "cxtrain/strategy/parameter_hash.h"
#include "cxtrain/trainer/layer_rows.h"

namespace cxtrain {

Trainer::Session::Session(Trainer& trainer, Module& module, Call call)
    : trainer_(trainer),
      module_(module),
      continues_(call == Call::other && trainer.fitted_),
      precision_(precision_policy(trainer.plan_.precision, trainer.plan_.amp_level)),
      context_{trainer.world_, trainer.plan_, trainer.options_, precision_, trainer.device_},
      strategy_(trainer.registry_.make<Strategy>(trainer.plan_.strategy, trainer.plan_.strategy_arguments)) {}

void Trainer::Session::open() {
  World& world = trainer_.world_;
  open_log_dir();
  run_agreed(world, [this] {
    make_replicas();
    strategy_->place(module_, context_);
  });
  strategy_->connect();
  generators_.emplace(context_.devices);
  run_ = std::make_unique<Run>(Run::Parts{world, trainer_.options_, module_, *strategy_, trainer_.device_,
                                          *generators_, precision_.module_dtype, trainer_.log_dir_});
  borrow_from_trainer();
  trainer_.where_ = [run = run_.get()] { return run->where(); };
  world.set_timeout(trainer_.options_.timeout_seconds, trainer_.where_);
  if (continues_) run_->state = *trainer_.fitted_;
  run_->state.seed = trainer_.options_.seed.value_or(0);
  run_agreed(world, [this] {
    add_callbacks();
    add_loggers();
  });
  attach();
  // The model is the same everywhere by now; dropout must not be.
  generators_->seed_apart(run_->state.seed, world.rank(), world.size());
  announce(module_);
  world.set_last_words([this](int exit_code) { fail(exit_code); });
  signals_.emplace();
}

Trainer::Session::~Session() {
  trainer_.world_.set_last_words({});
  const bool failed = std::uncaught_exceptions() > exceptions_;
  const std::string where = failed && run_ ? run_->where() : std::string();
  trainer_.where_ = failed ? std::function<std::string()>([where] { return where; }) : nullptr;
  trainer_.world_.set_timeout(trainer_.options_.timeout_seconds, {});
  if (!run_) return;
  run_->parts.module.attach(nullptr, nullptr);
  // The user's own go back to the trainer; the session's end with the run that they refer to.
  run_->callbacks.resize(user_callbacks_);
  trainer_.callbacks_ = std::move(run_->callbacks);
  auto loggers = run_->loggers.release(run_->loggers.size());
  const auto own = loggers.begin() + static_cast<std::ptrdiff_t>(user_loggers_);
  trainer_.file_loggers_.assign(std::move_iterator(own), std::move_iterator(loggers.end()));
  loggers.erase(own, loggers.end());
  trainer_.loggers_ = std::move(loggers);
}

void Trainer::Session::make_replicas() {
  const RankPlan& rank = trainer_.plan_.ranks[static_cast<std::size_t>(trainer_.world_.rank())];
  for (const std::string& device : rank.devices) context_.devices.emplace_back(device);
  if (context_.devices.empty()) context_.devices = {trainer_.device_};
  const int wanted = trainer_.plan_.replicas - 1;
  if (wanted > 0 && !trainer_.replica_factory_) {
    throw ConfigError("trainer.strategy",
                      trainer_.plan_.strategy + " keeps " + std::to_string(wanted + 1) +
                          " replicas of the model, and the trainer was not told how to make them",
                      "trainer.set_replica_factory([] { return std::make_unique<MyModel>(); })");
  }
  for (int i = 0; i < wanted; ++i) {
    replicas_.push_back(trainer_.replica_factory_());
    context_.replicas.push_back(replicas_.back().get());
  }
}

void Trainer::Session::open_log_dir() {
  if (continues_) return;
  const Options& options = trainer_.options_;
  trainer_.log_dir_.clear();
  // Who wants no logger wants no files.
  if (options.trainer.fast_dev_run > 0 || !options.trainer.logger || options.trainer.barebones) return;
  World& world = trainer_.world_;
  run_agreed(world, [&] {
    if (world.is_root())
      trainer_.log_dir_ = make_version_dir(*trainer_.files_, options.trainer.default_root_dir);
  });
  trainer_.log_dir_ = world.broadcast(trainer_.log_dir_);
  run_agreed(world, [&] {
    if (trainer_.log_) trainer_.log_->open_file(*trainer_.files_, trainer_.log_dir_);
    if (!world.is_root() || trainer_.config_text_.empty()) return;
    write_atomically(*trainer_.files_, trainer_.log_dir_ + "/config.yaml", trainer_.config_text_);
  });
}

void Trainer::Session::borrow_from_trainer() {
  run_->callbacks = std::move(trainer_.callbacks_);
  user_callbacks_ = run_->callbacks.size();
  for (auto& logger : trainer_.loggers_) run_->loggers.add(std::move(logger));
  trainer_.loggers_.clear();
  user_loggers_ = run_->loggers.size();
  if (continues_) {
    for (auto& logger : trainer_.file_loggers_) run_->loggers.add(std::move(logger));
  }
  trainer_.file_loggers_.clear();
}

void Trainer::Session::add_callbacks() {
  const Options& options = trainer_.options_;
  auto& callbacks = run_->callbacks;
  for (auto& callback : run_->parts.module.configure_callbacks()) callbacks.push_back(std::move(callback));
  if (options.trainer.max_time) {
    callbacks.push_back(
        std::make_unique<Timer>(static_cast<double>(*parse_max_time(*options.trainer.max_time))));
  }
  const CallbackOptions& wanted = options.callbacks;
  if (wanted.lr_monitor)
    callbacks.push_back(std::make_unique<LearningRateMonitor>(options.trainer.log_every_n_steps));
  if (wanted.device_stats || !trainer_.plan_.log_gpu_memory.empty()) {
    callbacks.push_back(std::make_unique<DeviceStats>(
        trainer_.plan_,
        DeviceStats::Wanted{wanted.device_stats, trainer_.plan_.log_gpu_memory,
                            options.trainer.log_every_n_steps},
        DeviceStats::Sources{open_gpu_monitor(),
                             [load = CpuLoad(run_->clock)]() mutable { return load.sample(); }}));
  }
  if (wanted.early_stopping_monitor && options.trainer.fast_dev_run == 0) {
    callbacks.push_back(std::make_unique<EarlyStopping>(
        EarlyStopping::Options{.monitor = *wanted.early_stopping_monitor,
                               .mode = wanted.early_stopping_mode,
                               .patience = wanted.early_stopping_patience,
                               .min_delta = wanted.early_stopping_min_delta}));
  }
  if (options.trainer.enable_progress_bar && !options.trainer.barebones && trainer_.world_.is_root()) {
    callbacks.push_back(std::make_unique<ProgressCallback>(
        run_->clock, *run_, trainer_.world_.facts().launched_by != LaunchedBy::alone));
  }
}

void Trainer::Session::add_loggers() {
  const TrainerOptions& options = trainer_.options_.trainer;
  if (continues_) return;
  if (!trainer_.world_.is_root() || !options.logger || options.barebones || trainer_.log_dir_.empty()) return;
  run_->loggers.add(std::make_unique<CsvLogger>(*trainer_.files_, trainer_.log_dir_));
  run_->loggers.add(std::make_unique<JsonlLogger>(*trainer_.files_, trainer_.log_dir_));
  run_->loggers.add(std::make_unique<TensorBoardLogger>(*trainer_.files_, trainer_.log_dir_));
}

void Trainer::Session::announce(const Module& module) const {
  const TrainerOptions& options = trainer_.options_.trainer;
  if (options.barebones) {
    for (const Problem& warning : trainer_.plan_.warnings)
      log_warning(warning.option + ": " + warning.message);
    return;
  }
  log_info(to_text(trainer_.plan_));
  log_info("gradients: " + strategy_->describe());
  if (!trainer_.log_dir_.empty()) log_info("writing to " + trainer_.log_dir_);
  if (options.enable_model_summary) log_info(model_summary(layer_rows(module)));
}

void Trainer::Session::require_samples_everywhere(const ShardedSampler& sampler) const {
  const std::int64_t batches = sampler.num_batches(), shards = sampler.shard().count;
  if (batches == 0 || sampler.global_size(batches - 1) >= shards) return;
  throw ConfigError("trainer.sync_batchnorm",
                    "needs samples on every rank in every step, but the epoch's last batch has " +
                        std::to_string(sampler.global_size(batches - 1)) + " for " + std::to_string(shards) +
                        " ranks",
                    "--data.uneven drop");
}

void Trainer::Session::attach() {
  run_->parts.module.attach(&run_->metrics, run_.get());
  for (const auto& replica : replicas_) replica->attach(nullptr, run_.get());
}

FitData::Loaders Trainer::Session::fit_loaders(DataModule& data) const {
  return {loader(data.train_dataloader(), /*training=*/true),
          loader(data.val_dataloader(), /*training=*/false)};
}

std::unique_ptr<DataLoader> Trainer::Session::loader(DataLoaderSpec spec, bool training,
                                                     std::optional<std::int64_t> batch_size) const {
  if (!spec.dataset) return nullptr;
  const Options& options = trainer_.options_;
  SamplerOptions sampling;
  spec.batch_size = batch_size.value_or(options.data.batch_size.value_or(spec.batch_size));
  sampling.batch_size = spec.batch_size;
  sampling.shuffle = spec.shuffle && options.trainer.overfit_batches.is_zero();
  sampling.seed = run_->state.seed;
  // Evaluation counts every sample once, on any number of ranks; padding would count some twice.
  sampling.uneven = training ? parse_uneven(options.data.uneven) : Uneven::exact;
  sampling.drop_last = spec.drop_last;
  const DataShard shard = options.trainer.use_distributed_sampler ? strategy_->data_shard() : DataShard{};
  ShardedSampler sampler(spec.dataset->size(), shard, sampling);
  if (training && trainer_.plan_.sync_batchnorm) require_samples_everywhere(sampler);
  return std::make_unique<DataLoader>(spec, std::move(sampler),
                                      LoaderOptions{.num_workers = options.data.num_workers,
                                                    .prefetch_factor = options.data.prefetch_factor,
                                                    .pin_memory = trainer_.device_.is_cuda()});
}

void Trainer::Session::write_file(const std::string& name, const std::string& content) const noexcept {
  if (!trainer_.world_.is_root() || trainer_.log_dir_.empty()) return;
  try {
    write_atomically(*trainer_.files_, trainer_.log_dir_ + "/" + name, content);
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

void Trainer::Session::write_predictions(const Predictions& predictions) const noexcept {
  if (trainer_.log_dir_.empty()) return;
  const std::string path = trainer_.log_dir_ + "/" + predictions_file(trainer_.world_.rank());
  try {
    const std::vector<char> bytes = to_pt(predictions);
    write_atomically(*trainer_.files_, path, {bytes.data(), bytes.size()});
    log_info("predictions of " + std::to_string(predictions.indices.size()) + " samples: " + path);
  } catch (const std::exception& error) {
    log_warning(message_of(error));
  }
}

/// What this rank knows by itself.
RunSummary Trainer::Session::summary(const char* status, int exit_code) const {
  RunSummary summary;
  summary.status = status;
  summary.exit_code = exit_code;
  summary.world_size = trainer_.world_.size();
  summary.strategy = trainer_.plan_.strategy;
  summary.precision = precision_.name;
  summary.peak_memory_bytes = peak_resident_bytes();
  if (!run_) return summary;
  summary.epochs = run_->state.epoch;
  summary.global_step = run_->state.global_step;
  summary.metrics = run_->metrics.all();
  if (continues_) summary.metrics.insert(trainer_.fitted_metrics_.begin(), trainer_.fitted_metrics_.end());
  summary.seconds = run_->training_seconds();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(run_->state.samples) / summary.seconds : 0;
  summary.first_step_seconds = run_->first_step_seconds;
  return summary;
}

void Trainer::Session::close_loggers() const noexcept {
  run_->loggers.flush();
  if (const std::int64_t lost = run_->loggers.lost_rows(); lost > 0) {
    log_warning(std::to_string(lost) + " rows of metrics could not be written");
  }
}

/// Fills in what the ranks find out together.
void Trainer::Session::check_parameters(RunSummary& summary) const {
  World& world = trainer_.world_;
  summary.parameters_sha256 = parameters_sha256(*strategy_);
  summary.peak_memory_bytes = world.max(summary.peak_memory_bytes);
  const std::vector<std::string> hashes = world.all_gather(summary.parameters_sha256);
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw AgreedError(ExitCode::failure,
                      "at the end rank " + std::to_string(rank) +
                          " holds other parameters or buffers than rank "
                          "0; a hook changed them on some ranks only, or a buffer depends on the rank's data "
                          "(trainer.sync_batchnorm)");
  }
}

RunSummary Trainer::Session::finish() {
  RunSummary result = summary("done", static_cast<int>(ExitCode::done));
  check_parameters(result);
  if (run_->state.global_step > 0) {
    trainer_.fitted_ = run_->state;
    trainer_.fitted_metrics_ = result.metrics;
  }
  close_loggers();
  write_file("run.json", to_json(result));
  strategy_->teardown();
  return result;
}

RunSummary Trainer::Session::stop(ExitCode code) {
  RunSummary result = summary("stopped", static_cast<int>(code));
  close_loggers();
  write_file("run.json", to_json(result));
  result.parameters_sha256 = parameters_sha256(*strategy_);
  write_file("run.json", to_json(result));
  strategy_->teardown();
  return result;
}

void Trainer::Session::fail(int exit_code) noexcept {
  if (!trainer_.world_.is_root() || trainer_.log_dir_.empty()) return;
  try {
    if (run_) run_->loggers.flush();
    write_file("run.json", to_json(summary("failed", exit_code)));
  } catch (...) {
    // A metric on a device that has failed cannot be read.
  }
}

}  // namespace cxtrain
