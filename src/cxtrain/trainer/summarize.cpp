#include "cxtrain/trainer/summarize.h"

#include <cstddef>
#include <string>
#include <vector>

#include "cxtrain/accelerator/devices.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/strategy/strategy.h"

namespace cxtrain {

void add_memory(RunSummary& summary, std::span<const at::Device> devices) {
  summary.peak_memory_bytes = peak_resident_bytes();
  summary.pss_bytes = proportional_bytes();
  summary.peak_device_memory_bytes = peak_device_bytes(devices);
}

void add_progress(RunSummary& summary, const TrainContext& context, const RunSummary* fit) {
  summary.epochs = context.state.epoch;
  summary.global_step = context.state.global_step;
  // A device that has failed, or that waits for a lost rank, never answers.
  summary.metrics = summary.status == "failed" ? context.metrics.all_on_host() : context.metrics.all();
  if (fit != nullptr) {  // what is said of the training was true at its end
    summary.metrics.insert(fit->metrics.begin(), fit->metrics.end());
    summary.seconds = fit->seconds;
    summary.samples_per_second = fit->samples_per_second;
    summary.samples_per_step = fit->samples_per_step;
    summary.first_step_seconds = fit->first_step_seconds;
    return;
  }
  summary.seconds = context.training_seconds();
  summary.samples_per_second =
      summary.seconds > 0 ? static_cast<double>(context.state.samples) / summary.seconds : 0;
  summary.samples_per_step = context.progress.samples_per_step;
  summary.first_step_seconds = context.training_clock.first_step_seconds();
}

void add_comparison(RunSummary& summary, World& world, Strategy& strategy) {
  summary.parameters_sha256 = parameters_sha256(strategy);
  summary.peak_memory_bytes = world.max(summary.peak_memory_bytes);
  summary.pss_bytes = world.max(summary.pss_bytes);
  summary.peak_device_memory_bytes = world.max(summary.peak_device_memory_bytes);
  if (!strategy.ranks_keep_whole_models()) return;  // nobody has a second copy to compare
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
              "all ranks, a buffer that depends on the rank's data (trainer.sync_batchnorm), or GPUs of "
              "several models, which may round differently");
}

}  // namespace cxtrain
