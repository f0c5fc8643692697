#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <span>
#include <string_view>

#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/trainer.h"
#include "gpu_bench/cuda_measurement.h"

namespace cxtrain::gpu_bench {
namespace {

using c10::cuda::SyncDebugMode;
using c10::cuda::warning_state;

/// Counts LibTorch's warnings of calls that wait for the device. Autograd's threads pass theirs on to this
/// one.
class CountsWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (std::string_view(warning.msg()).find("synchronizing CUDA operation") != std::string_view::npos)
      ++count;
  }
  std::int64_t count = 0;
};

/// Has LibTorch warn in the steps that are looked at.
class Watches final : public Callback {
 public:
  Watches(std::int64_t first, std::int64_t last, std::int64_t& steps)
      : first_(first), last_(last), steps_(steps) {}
  void on_train_batch_start(Run& run, const Batch&, std::int64_t) override {
    const bool watch = run.global_step() >= first_ && run.global_step() < last_;
    warning_state().set_sync_debug_mode(watch ? SyncDebugMode::L_WARN : SyncDebugMode::L_DISABLED);
    if (watch) ++steps_;
  }
  void on_train_end(Run&) override { warning_state().set_sync_debug_mode(SyncDebugMode::L_DISABLED); }

 private:
  std::int64_t first_, last_;
  std::int64_t& steps_;
};

}  // namespace

Figures count_waits(const std::vector<std::string>& arguments) {
  cuda_devices();  // throws where there is none
  open_accelerator();
  std::vector<const char*> views;
  for (const std::string& argument : arguments) views.push_back(argument.c_str());
  const Options options = parse_command_line(views, read_text_file).options;
  SoloWorld world;
  Registry registry;
  std::vector<Problem> problems;
  const Components components = load_components(registry, options, problems);
  if (!problems.empty()) throw ConfigError(problems);
  Trainer trainer(world, options, registry);
  seed_everything(options.seed.value_or(0));
  const std::unique_ptr<Module> model = make_model(registry, options, components);
  const std::unique_ptr<DataModule> data = make_data(registry, options, components, *model);
  std::int64_t steps = 0;
  trainer.add_callback(std::make_unique<Watches>(5, options.trainer.max_steps - 1, steps));
  CountsWarnings warnings;
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
    trainer.fit(*model, *data);
  }
  Figures figures;
  figures.add("steps", static_cast<double>(steps), "");
  figures.add("waits", static_cast<double>(warnings.count), "");
  return figures;
}

}  // namespace cxtrain::gpu_bench
