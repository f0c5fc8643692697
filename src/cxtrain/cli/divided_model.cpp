#include "cxtrain/cli/divided_model.h"

#include <ATen/core/grad_mode.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/tensor/shapes_only.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/place_layers.h"

namespace cxtrain {
namespace {

using Make = std::function<std::unique_ptr<Module>()>;

/// What is known of a model before it is built.
struct Foreseen {
  KeptRanges kept;
  std::optional<MatchedWeights> weights;
};

Foreseen foresee(const Plan& plan, int rank, const Options& options, const PrecisionPolicy& precision,
                 const Make& make) {
  const ShapesOnly shapes;
  const std::unique_ptr<Module> model = make();
  if (model->chain() == nullptr) return {};
  Foreseen foreseen;
  if (!options.model_weights.path.empty())
    foreseen.weights.emplace(*model, options.model_weights.path, weights_selection(options.model_weights));
  const std::vector<at::Device> nowhere(static_cast<std::size_t>(plan.devices_per_rank), at::kMeta);
  model->place(nowhere, precision);
  const std::vector<NamedOptimizer> setups = optimizer_setups(*model, options);
  const std::vector<OptimizerTarget> targets = optimizer_targets(*model, setups);
  foreseen.kept = plan.traits.kept(plan, {*model, targets, precision}, rank);
  return foreseen;
}

/// Returns null if the model cannot be built so.
std::unique_ptr<Module> build(const Plan& plan, int rank, Foreseen& foreseen,
                              const PrecisionPolicy& precision, const Make& make) {
  const std::vector<std::string>& devices = plan.ranks[static_cast<std::size_t>(rank)].devices;
  const at::Device device = devices.empty() ? at::Device(at::kCPU) : at::Device(devices.front());
  const auto load = [&](torch::nn::Module& part, const std::string& prefix) {
    if (foreseen.weights) foreseen.weights->load(part, prefix);
  };
  KeepRanges keep(foreseen.kept, [&](torch::nn::Module& block, const std::string& prefix) {
    load(block, prefix);
    place_layers(block, device, precision);
  });
  std::unique_ptr<Module> model = make();
  load(*model, "");  // what belongs to no block
  return keep.left_alone(*model) ? std::move(model) : nullptr;
}

}  // namespace

std::unique_ptr<Module> build_divided_model(const Plan& plan, int rank, const Options& options,
                                            const Make& make) {
  // Only tensors in row-major order, on one device, are divided.
  if (plan.traits.kept == nullptr || plan.channels_last || plan.devices_per_rank > 1) return nullptr;
  const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
  try {
    Foreseen foreseen = foresee(plan, rank, options, precision, make);
    if (foreseen.kept.of.empty()) return nullptr;
    std::unique_ptr<Module> model = build(plan, rank, foreseen, precision, make);
    if (model && foreseen.weights) foreseen.weights->report();
    if (!model)
      log_detail("the model is built as a whole: its code uses parameters of blocks that it has added");
    return model;
  } catch (const CheckpointError&) {
    throw;
  } catch (const std::exception& error) {  // what is wrong with the whole model, too, comes out with it
    log_detail("the model is built as a whole, because it cannot be built block by block: " +
               shortened(message_of(error), 300));
    return nullptr;
  }
}

}  // namespace cxtrain
