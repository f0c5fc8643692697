#include "cxtrain/callbacks/built_in.h"

#include "cxtrain/callbacks/device_stats.h"
#include "cxtrain/callbacks/divergence_check.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/learning_rate_monitor.h"
#include "cxtrain/callbacks/loss_spike.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/callbacks/progress.h"
#include "cxtrain/callbacks/report_progress.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/report/file_loggers.h"

namespace cxtrain {
namespace {

using Type = ArgumentSpec::Type;

std::vector<std::string> words(std::span<const std::string_view> choices) {
  return {choices.begin(), choices.end()};
}

/// A name that the user's program has taken is its own.
template <class Make>
void add(Registry& registry, const char* name, const char* help, std::vector<ArgumentSpec> arguments,
         Make make) {
  if (registry.find(Callback::kKind, name) != nullptr) return;
  registry.add<Callback>(name, help, std::move(arguments), std::move(make));
}

void add_early_stopping(Registry& registry) {
  add(registry, "early_stopping", "stops when a metric no longer improves",
      {{"monitor", Type::text, "", "the name of a metric that is logged", {}, {}, /*required=*/true},
       {"mode", Type::text, "min", "what improving means", words(ChoiceOf<MonitorMode>::words)},
       {"patience", Type::integer, "3", "validations to wait", {}, Range::at_least(0)},
       {"min_delta", Type::real, "0", "smaller changes do not count", {}, Range::at_least(0)},
       {"check_finite", Type::boolean, "true", "stop when the metric is NaN or infinite"},
       {"check_on_train_epoch_end", Type::optional_boolean, "auto",
        "look at the end of each epoch, not of each validation"}},
      [](const Arguments& arguments) {
        return std::make_unique<EarlyStopping>(EarlyStopping::Options{
            .monitor = arguments.text("monitor"),
            .mode = *parse_choice<MonitorMode>(arguments.text("mode")),
            .patience = arguments.integer("patience"),
            .min_delta = arguments.real("min_delta"),
            .check_finite = arguments.boolean("check_finite"),
            .check_on_train_epoch_end = arguments.optional_boolean("check_on_train_epoch_end")});
      });
}

/// "00:00:30:00", or seconds; empty: 0.
double interval_of(const char* option, const std::string& text) {
  if (text.empty()) return 0;
  if (const auto seconds = parse_real(text); seconds && *seconds >= 0) return *seconds;
  const auto interval = parse_duration(text);
  if (!interval) throw ConfigError(option, interval.error, "00:00:30:00, or seconds");
  return static_cast<double>((*interval).count());
}

void add_model_checkpoint(Registry& registry) {
  add(registry, "model_checkpoint", "writes checkpoints, as --checkpoint.ARG sets them",
      {{"dirpath", Type::text, "", "the folder; default: checkpoints in the run's folder"},
       {"filename", Type::text, "{epoch}-{step}", "with {metric:.2f} for values"},
       {"monitor", Type::text, "",
        "metric by which checkpoints are compared; default: the newest is the best"},
       {"mode", Type::text, "min", "which value is the best", words(ChoiceOf<MonitorMode>::words)},
       {"save_top_k", Type::integer, "1", "how many of the best are kept; -1: all", {}, Range::at_least(-1)},
       {"save_last", Type::boolean, "false", "keep the newest as well, and a link last.ckpt to it"},
       {"every_n_train_steps",
        Type::integer,
        "0",
        "save after every N steps; 0: not by steps",
        {},
        Range::at_least(0)},
       {"every_n_epochs",
        Type::integer,
        "-1",
        "save after every N epochs; -1: every epoch, or not by epochs if steps or a time are given",
        {},
        Range::at_least(-1)},
       {"train_time_interval", Type::text, "", "save after this time: DD:HH:MM:SS, or seconds"},
       {"save_on_train_epoch_end", Type::optional_boolean, "auto",
        "at the end of each epoch, not of each validation"},
       {"save_weights_only", Type::boolean, "false", "the model, and nothing to resume from"},
       {"auto_insert_metric_name", Type::boolean, "true", "'epoch=3' in names, not '3'"}},
      [](const Arguments& arguments) {
        const std::int64_t epochs = arguments.integer("every_n_epochs");
        return std::make_unique<ModelCheckpoint>(ModelCheckpoint::Options{
            .dirpath = arguments.text("dirpath"),
            .filename = arguments.text("filename"),
            .monitor = arguments.text("monitor"),
            .mode = *parse_choice<MonitorMode>(arguments.text("mode")),
            .save_top_k = arguments.integer("save_top_k"),
            .save_last = arguments.boolean("save_last"),
            .every_n_train_steps = arguments.integer("every_n_train_steps"),
            .every_n_epochs = epochs < 0 ? std::nullopt : std::optional(epochs),
            .train_time_interval =
                interval_of("checkpoint.train_time_interval", arguments.text("train_time_interval")),
            .save_on_train_epoch_end = arguments.optional_boolean("save_on_train_epoch_end"),
            .save_weights_only = arguments.boolean("save_weights_only"),
            .auto_insert_metric_name = arguments.boolean("auto_insert_metric_name")});
      });
}

void add_loss_spike(Registry& registry) {
  add(registry, "loss_spike", "warns when the loss explodes",
      {{"window", Type::integer, "100", "losses that say what is usual", {}, Range::at_least(5)},
       {"deviations", Type::real, "10", "above the median, in usual spreads", {}, Range::at_least(1)},
       {"in_a_row",
        Type::integer,
        "3",
        "number of losses in a row; a single one may be an odd batch",
        {},
        Range::at_least(1)},
       {"every_n_train_steps", Type::integer, "1", "look at the loss every N steps", {}, Range::at_least(1)},
       {"stop", Type::boolean, "false", "end the run, instead of a warning"}},
      [](const Arguments& arguments) {
        return std::make_unique<LossSpike>(LossSpike::Options{
            .limits = {.window = static_cast<std::size_t>(arguments.integer("window")),
                       .deviations = arguments.real("deviations"),
                       .in_a_row = static_cast<std::size_t>(arguments.integer("in_a_row"))},
            .every_n_train_steps = arguments.integer("every_n_train_steps"),
            .stop = arguments.boolean("stop")});
      });
}

void add_prometheus(Registry& registry) {
  add(registry, "prometheus", "writes how far the run is to a file that Prometheus' node_exporter collects",
      {{"path",
        Type::text,
        "",
        "the file, as /var/lib/node_exporter/cxtrain.prom",
        {},
        {},
        /*required=*/true},
       {"seconds", Type::real, "15", "between two writes", {}, Range::at_least(0.1)}},
      [](const Arguments& arguments) {
        static const SteadyClock clock;
        return std::make_unique<ReportProgress>(prometheus_file(arguments.text("path")),
                                                arguments.real("seconds"), clock);
      });
}

}  // namespace

void register_built_in(Registry& registry) {
  register_file_loggers(registry);
  add_model_checkpoint(registry);
  add_early_stopping(registry);
  add(registry, "lr_monitor", "logs the learning rate", {},
      [](const Arguments&) { return std::make_unique<LearningRateMonitor>(); });
  add(registry, "device_stats", "logs load, memory and temperature of the devices", {}, [](const Arguments&) {
    return std::make_unique<DeviceStats>(DeviceStats::Wanted{.device_stats = true});
  });
  add(registry, "divergence_check", "ends a run whose ranks no longer hold the same parameters",
      {{"every_n_train_steps",
        Type::integer,
        "1000",
        "compare the parameters of the ranks every N steps",
        {},
        Range::at_least(1)}},
      [](const Arguments& arguments) {
        return std::make_unique<DivergenceCheck>(arguments.integer("every_n_train_steps"));
      });
  add_loss_spike(registry);
  add_prometheus(registry);
  add(registry, "gpu_memory", "logs the GPUs' memory, as --log_gpu_memory does",
      {{"log", Type::text, "all", "of each, or the least and the most",
        words(ChoiceOf<GpuMemoryLog>::words)}},
      [](const Arguments& arguments) {
        const GpuMemoryLog log = *parse_choice<GpuMemoryLog>(arguments.text("log"));
        return std::make_unique<DeviceStats>(DeviceStats::Wanted{.gpu_memory = log});
      });
  add(registry, "timer", "stops after a time, as --max_time does",
      {{"seconds", Type::integer, "", "of training", {}, Range::at_least(0), /*required=*/true}},
      [](const Arguments& arguments) {
        return std::make_unique<Timer>(static_cast<double>(arguments.integer("seconds")));
      });
  add(registry, "progress_bar", "shows progress, as --enable_progress_bar does", {},
      [](const Arguments&) { return std::make_unique<ProgressCallback>(); });
}

}  // namespace cxtrain
