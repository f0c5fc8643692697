// cxtrain_mpi with a stopwatch: takes the program's options, trains with the Trainer, and prints one JSON
// line on rank 0: the time of a step after the first WARMUP steps. On a GPU the stopwatch starts and stops
// when the GPU has done its work; --max_steps names the last step.
//
//   BENCH_WARMUP=10 bench_trainer_loop --model mnist --data.path ... --max_steps 200

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/clock.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/trainer.h"

namespace {

using namespace cxtrain;

/// Seconds of processors that all threads of this process have taken.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// When the steps after the warm-up began and ended, how much of them went into waiting for complete
/// gradients, and how much time of processors this process has taken before them and up to their end.
struct StepTimes {
  std::int64_t warmup = 0, steps = 0;
  double begin = 0, end = 0, synchronised = 0;
  double processor_begin = 0, processor_end = 0;
  double loss = 0;
};

class Stopwatch final : public Callback {
 public:
  Stopwatch(StepTimes& times, at::Device device, std::int64_t last_step)
      : times_(times), device_(device), last_step_(last_step) {}
  void on_after_backward(Run&) override { backward_done_ = clock_.now(); }
  void on_before_optimizer_step(Run&, OptimizerRef&) override {
    times_.synchronised += clock_.now() - backward_done_;
  }
  void on_train_batch_end(Run& run, const StepOutput& output, const Batch&, std::int64_t) override {
    // The micro-batches of the next step come under the same number.
    if (run.global_step() == times_.warmup && times_.steps != times_.warmup) {
      synchronize({&device_, 1});
      times_.begin = clock_.now();
      times_.processor_begin = processor_seconds();
      times_.synchronised = 0;
    }
    // Here rather than at the end of training: the checkpoint of the last step is not a part of the step.
    if (run.global_step() == last_step_) {
      synchronize({&device_, 1});
      times_.processor_end = processor_seconds();
    }
    if (run.global_step() > times_.warmup) times_.end = clock_.now();
    times_.steps = run.global_step();
    last_loss_ = output.loss;
  }
  void on_train_end(Run&) override { times_.loss = last_loss_.item<double>(); }

 private:
  StepTimes& times_;
  const at::Device device_;
  const std::int64_t last_step_;
  SteadyClock clock_;
  double backward_done_ = 0;
  at::Tensor last_loss_;
};

int measure(int argc, char** argv) {
  const std::span<const char* const> args(argv + 1, static_cast<std::size_t>(argc - 1));
  const Options options = parse_command_line(args, read_text_file).options;
  const std::unique_ptr<World> world = make_world();
  Log log(world->rank());
  Registry registry;
  std::vector<Problem> problems;
  const Components components = load_components(registry, options, problems);
  if (!problems.empty()) throw ConfigError(problems);
  Trainer trainer(*world, options, registry);
  trainer.set_outputs({.log = &log});  // rank_0.log, which says how long checkpoints took
  seed_everything(options.seed.value_or(0));
  const std::unique_ptr<Module> model = make_model(registry, options, components);
  const std::unique_ptr<DataModule> data = make_data(registry, options, components, *model);
  StepTimes times;
  if (const char* warmup = std::getenv("BENCH_WARMUP")) times.warmup = std::atoll(warmup);
  trainer.add_callback(std::make_unique<Stopwatch>(
      times, at::Device(trainer.plan().ranks.at(static_cast<std::size_t>(world->rank())).device),
      options.trainer.max_steps));
  const RunSummary summary = trainer.fit(*model, *data);
  if (!world->is_root()) return 0;

  const auto measured = static_cast<double>(times.steps - times.warmup);
  const double seconds = times.end - times.begin;
  const DataLoaderSpec spec = data->train_dataloader().specs().front();
  const auto global = static_cast<double>(options.data.batch_size.value_or(spec.batch_size) * world->size());
  std::printf(
      "{\"step_us\": %.3f, \"sync_us\": %.3f, \"cpu_us\": %.3f, \"samples_per_second\": %.2f, "
      "\"first_step_seconds\": %.4f, "
      "\"peak_memory_bytes\": %lld, \"loss\": %.9g}\n",
      seconds / measured * 1e6, times.synchronised / measured * 1e6,
      (times.processor_end - times.processor_begin) / measured * 1e6, measured * global / seconds,
      summary.first_step_seconds, static_cast<long long>(summary.peak_memory_bytes), times.loss);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  try {
    return measure(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
