#include "cxtrain/callbacks/built_in.h"

#include "cxtrain/callbacks/device_stats.h"
#include "cxtrain/callbacks/divergence_check.h"
#include "cxtrain/callbacks/early_stopping.h"
#include "cxtrain/callbacks/ema.h"
#include "cxtrain/callbacks/learning_rate_monitor.h"
#include "cxtrain/callbacks/loss_spike.h"
#include "cxtrain/callbacks/model_checkpoint.h"
#include "cxtrain/callbacks/progress.h"
#include "cxtrain/callbacks/report_progress.h"
#include "cxtrain/callbacks/timer.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/reduce/power_sgd.h"
#include "cxtrain/report/file_loggers.h"

namespace cxtrain {
namespace {

/// Torch's bf16_compress_hook and fp16_compress_hook, by the dtype.
template <at::ScalarType kDtype, bool kOnlyLate = false>
class Rounding final : public RoundingHook {
 public:
  at::ScalarType dtype() const override { return kDtype; }
  bool only_late() const override { return kOnlyLate; }
};

/// A name that the user's program has taken stays the program's.
template <class Class>
void add(Registry& registry, const char* name, const char* help) {
  if (registry.find(Class::kKind, name) == nullptr) registry.add<Class>(name, help);
}
template <class Hook>
void add(Registry& registry, const char* name, const char* help, const CommHookTraits& traits) {
  if (registry.find(Hook::kKind, name) == nullptr) registry.add<Hook>(name, help, traits);
}

}  // namespace

void register_built_in(Registry& registry) {
  add<CsvLogger>(registry, "csv", "metrics.csv");
  add<JsonlLogger>(registry, "jsonl", "metrics.jsonl");
  add<TensorBoardLogger>(registry, "tensorboard", "events.out.tfevents.*");
  add<ModelCheckpoint>(registry, "model_checkpoint", "writes checkpoints, as --checkpoint.ARG sets them");
  add<EarlyStopping>(registry, "early_stopping", "stops when a metric no longer improves");
  add<Ema>(registry, "ema", "exponential moving averages of the parameters, for validations and the end");
  add<LearningRateMonitor>(registry, "lr_monitor", "logs the learning rate");
  add<DeviceStatsMonitor>(registry, "device_stats", "logs load, memory and temperature of the devices");
  add<DivergenceCheck>(registry, "divergence_check",
                       "ends a run if its ranks no longer hold equal parameters");
  add<LossSpike>(registry, "loss_spike", "warns when the loss explodes");
  add<Prometheus>(registry, "prometheus",
                  "writes how far the run is to a file that Prometheus' node_exporter collects");
  add<GpuMemoryMonitor>(registry, "gpu_memory", "logs the GPUs' memory, as --log_gpu_memory does");
  add<Timer>(registry, "timer", "stops after a time, as --max_time does");
  add<ProgressCallback>(registry, "progress_bar", "shows progress, as --enable_progress_bar does");
  add<Rounding<at::kBFloat16>>(registry, "bf16",
                               "rounds gradients on their way to bfloat16; on CPUs between nodes only", {});
  add<Rounding<at::kHalf>>(registry, "fp16",
                           "rounds gradients on their way to float16; on CPUs between nodes only", {});
  add<Rounding<at::kBFloat16, /*only_late=*/true>>(
      registry, "auto", "bf16 for gradients that would arrive after backward otherwise", {});
  add<PowerSgd>(registry, "powersgd", "sends matrices of low rank", PowerSgd::traits());
}

}  // namespace cxtrain
