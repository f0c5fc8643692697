#include "cxtrain/cli/divided_model.h"

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cli/planned_model.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/tensor/shapes_only.h"
#include "cxtrain/trainer/place_layers.h"

namespace cxtrain {
namespace {

using Make = std::function<std::unique_ptr<Module>()>;

/// Whether ranks of the plan may keep parts of a model. Only tensors in row-major order, on one device, are
/// divided.
bool may_divide(const Plan& plan) {
  return plan.traits.kept != nullptr && !plan.channels_last && plan.devices_per_rank == 1;
}

/// Returns the parts of parameters that the rank keeps; empty: the rank keeps the whole model. `model`: built
/// without memory.
KeptRanges kept_of(const Plan& plan, int rank, const Options& options, Module& model) {
  if (model.blocks() == nullptr) return {};
  const PlannedModel planned(plan, options, model);
  return plan.traits.kept(plan, planned.outline(), rank);
}

/// Facts about a model that is not built yet.
struct Foreseen {
  KeptRanges kept;
  std::optional<MatchedWeights> weights;
};

Foreseen foresee(const Plan& plan, int rank, const Options& options, const Make& make) {
  const ShapesOnly shapes;
  const std::unique_ptr<Module> model = make();
  Foreseen foreseen{kept_of(plan, rank, options, *model), std::nullopt};
  if (!foreseen.kept.of.empty() && !options.model_weights.path.empty())
    foreseen.weights.emplace(*model, options.model_weights.path, weights_selection(options.model_weights));
  return foreseen;
}

/// Returns null if the model cannot be built so.
std::unique_ptr<Module> build(const Plan& plan, int rank, Foreseen& foreseen, const Make& make) {
  const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
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
  load(*model, "");  // tensors that belong to no block
  return keep.left_alone(*model) ? std::move(model) : nullptr;
}

}  // namespace

bool keeps_part_of_model(const Plan& plan, int rank, const Options& options, const Make& make) {
  if (!may_divide(plan)) return false;
  try {
    const ShapesOnly shapes;
    const std::unique_ptr<Module> model = make();
    return !kept_of(plan, rank, options, *model).of.empty();
  } catch (const std::exception&) {
    return false;
  }
}

std::unique_ptr<Module> build_divided_model(const Plan& plan, int rank, const Options& options,
                                            const Make& make) {
  if (!may_divide(plan)) return nullptr;
  try {
    Foreseen foreseen = foresee(plan, rank, options, make);
    if (foreseen.kept.of.empty()) return nullptr;
    std::unique_ptr<Module> model = build(plan, rank, foreseen, make);
    if (model && foreseen.weights) foreseen.weights->report();
    if (!model)
      log_detail("the model is built as a whole: its code uses parameters of blocks that it has added");
    return model;
  } catch (const CheckpointError&) {
    throw;
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {
    // The build of the whole model reports errors of the model itself.
    log_detail("the model is built as a whole, because it cannot be built block by block: " +
               shortened(message_of(error), 300));
    return nullptr;
  }
}

}  // namespace cxtrain
