#include "cxtrain/callbacks/loss_spike.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/config/fields.h"

namespace cxtrain {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<SpikeDetector::Spike> SpikeDetector::add(double loss) {
  const auto remember = [this](double value) {
    if (!std::isfinite(value)) return;
    usual_.push_back(value);
    if (usual_.size() > limits_.window) usual_.pop_front();
  };
  if (5 * usual_.size() < limits_.window) {
    remember(loss);
    return std::nullopt;
  }
  const double usual = median({usual_.begin(), usual_.end()});
  std::vector<double> distances;
  distances.reserve(usual_.size());
  for (const double value : usual_) distances.push_back(std::abs(value - usual));
  // Losses that hardly differ have a spread all the same, or rounding would be a spike.
  const double spread = std::max(1.4826 * median(std::move(distances)), 1e-3 * std::abs(usual));
  const bool within = std::isfinite(loss) && loss <= usual + limits_.deviations * spread;
  if (within) {
    spiked_.clear();
    remember(loss);
    return std::nullopt;
  }
  spiked_.push_back(loss);
  if (spiked_.size() >= limits_.window) {
    for (const double value : spiked_) remember(value);
    spiked_.clear();
    return std::nullopt;
  }
  if (spiked_.size() != limits_.in_a_row) return std::nullopt;
  return Spike{usual, spread, spiked_.size()};
}

LossSpike::LossSpike(const Args& args) : args_(args), detector_(args.limits) {
  require_fields(args);
  if (args.limits.in_a_row >= args.limits.window)
    throw ConfigError("callbacks.loss_spike.in_a_row",
                      std::to_string(args.limits.in_a_row) + " losses fill the window of " +
                          std::to_string(args.limits.window) + ", and count as usual then",
                      "use fewer, or a larger window", MessageCode::conflicting_options);
}

void LossSpike::on_train_batch_end(Run& run, const StepOutput& output, const Batch&, std::int64_t) {
  const std::int64_t step = run.global_step();
  const at::Tensor& loss = output.loss;
  if (!run.progress().stepped || step % args_.every_n_train_steps != 0 || !loss.defined()) return;
  const double value = loss.item<double>();
  const std::optional<SpikeDetector::Spike> spike = detector_.add(value);
  if (!spike) return;
  const std::int64_t first =
      step - (static_cast<std::int64_t>(spike->losses) - 1) * args_.every_n_train_steps;
  std::ostringstream text;
  text << "the loss of rank " << run.rank() << " on " << hostname() << " has left its range in steps "
       << first << " to " << step << ": it is " << value << ", and usually " << spike->usual;
  if (std::isfinite(value))
    text << " (" << std::llround((value - spike->usual) / spike->spread) << " times the usual spread above)";
  text << "; to go back, start with --ckpt_path and a checkpoint of before step " << first
       << ", with a smaller learning rate, gradient_clip_val, or without the samples of these steps";
  if (args_.stop) throw TrainingError(text.str() + " (callbacks.loss_spike.stop)", MessageCode::not_finite);
  log_warning(text.str());
}

}  // namespace cxtrain
