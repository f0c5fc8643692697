#include "cxtrain/trainer/batch_size_finder.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/strategy/step.h"
#include "cxtrain/trainer/model_snapshot.h"
#include "cxtrain/trainer/run_loaders.h"

namespace cxtrain {
namespace {

struct NoHooks final : StepObserver {
  void before_zero_grad() override {}
  void before_backward(const at::Tensor&) override {}
  void after_backward() override {}
};

void give_back_device_memory(at::Device device) {
  if (!device.is_cpu()) at::getDeviceAllocator(device.type())->emptyCache();
}

class Trials {
 public:
  Trials(TrainContext& context, Optimization& optimization, const Loaders& loaders, std::int64_t steps)
      : context_(context), optimization_(optimization), loaders_(loaders), steps_(steps) {}

  /// Whether all ranks can train with this size.
  bool fits(std::int64_t batch_size) {
    const bool here = expected_to_fit(batch_size) && runs(batch_size);
    const bool everywhere = !context_.parts.world.any_rank(!here);
    log_info("batch size " + std::to_string(batch_size) + (everywhere ? " fits" : " does not fit"));
    context_.leave_if_asked(/*saves_state=*/false);  // a signal may have come meanwhile
    if (everywhere) learn_from(batch_size);
    return everywhere;
  }

 private:
  bool runs(std::int64_t batch_size) {
    // A rank may give up within a step, and no other rank may wait for it there (`Module::all_gather`).
    context_.progress.samples_on_every_rank = false;
    const FreshStates unseen(trainable(context_.parts.module).all_metrics());
    try {
      const std::unique_ptr<DataLoader> loader = training_loader(context_, loaders_, batch_size);
      loader->start_epoch(0, 0, steps_);
      NoHooks hooks;
      for (Batch batch; context_.batches.next(*loader, batch);) {
        // Not the last of a step: gradients stay on this rank.
        const MicroStep micro{.batch = batch,
                              .batch_idx = loader->batch_idx(),
                              .first = true,
                              .last = false,
                              .observer = hooks};
        optimization_.begin(micro, /*uneven=*/false);
        OneMicroStep plan(micro);
        context_.parts.strategy.step(plan);
        optimization_.end();
      }
      return true;
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      context_.wait_for_devices();
      context_.batches.release_memory();
      give_back_device_memory(context_.parts.device);
      return false;
    }
  }

  /// Each doubling of the batch doubles what the last one added, at most; ranks of a node share its memory.
  bool expected_to_fit(std::int64_t batch_size) const {
    if (!context_.parts.device.is_cpu() || !last_size_) return true;
    const double factor = static_cast<double>(batch_size) / static_cast<double>(*last_size_);
    const double needed = static_cast<double>(last_peak_ - first_peak_) * (factor - 1);
    return needed * context_.parts.world.facts().local_size < static_cast<double>(available_memory_bytes());
  }

  void learn_from(std::int64_t batch_size) {
    last_peak_ = peak_resident_bytes();
    if (!last_size_) first_peak_ = last_peak_;
    last_size_ = batch_size;
  }

  TrainContext& context_;
  Optimization& optimization_;
  const Loaders& loaders_;
  std::int64_t steps_;
  std::optional<std::int64_t> last_size_;
  std::int64_t first_peak_ = 0, last_peak_ = 0;
};

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // What CUDA and its libraries say comes in an exception of no type of its own.
  std::string text = error.what();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto says = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  return says("defaultcpuallocator: not enough memory") ||
         says("defaultcpuallocator: can't allocate memory") || says("out of memory") ||
         says("cublas_status_alloc_failed") || says("cudnn_status_alloc_failed");
}

std::int64_t find_batch_size(TrainContext& context, Optimization& optimization, const Loaders& loaders,
                             std::int64_t most, const BatchSizeSearch& search) {
  const ModelSnapshot snapshot(context.parts, optimization);
  Trials trials(context, optimization, loaders, search.steps_per_trial);
  std::int64_t fits = 0, fails = 0;  // the largest known to fit, the smallest known not to
  int trial = 0;
  for (std::int64_t size = std::min(search.initial, most); trial < search.max_trials; ++trial) {
    if (!trials.fits(size)) {
      fails = size;
      break;
    }
    fits = size;
    if (size >= most) break;
    size = std::min(size * 2, most);
  }
  if (search.mode == BatchSizeSearch::Mode::binsearch && fails > 0) {
    for (; fails - fits > 1 && trial < search.max_trials; ++trial) {
      const std::int64_t middle = fits + (fails - fits) / 2;
      (trials.fits(middle) ? fits : fails) = middle;
    }
  }
  snapshot.restore();
  give_back_device_memory(context.parts.device);  // NCCL and libraries take theirs beside LibTorch's
  run_agreed(context.parts.world, [&] {
    if (fits > 0) return;
    throw ConfigError("trainer.auto_scale_batch_size",
                      "a batch of " + std::to_string(fails) + " does not fit into the memory of every rank",
                      "a smaller model, more devices_per_rank, or a 16-bit precision",
                      MessageCode::out_of_memory);
  });
  return fits;
}

}  // namespace cxtrain
