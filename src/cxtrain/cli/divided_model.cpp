#include "cxtrain/cli/divided_model.h"

#include <ATen/core/grad_mode.h>

#include <exception>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/tensor/piece.h"
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
KeptRanges kept_of(const Plan& plan, int rank, Module& model) {
  if (trainable(model).blocks() == nullptr) return {};
  const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
  const at::Device nowhere(at::kMeta);
  trainable(model).place({&nowhere, 1}, precision);
  return plan.traits.kept(plan, {.module = trainable(model), .targets = {}, .precision = precision}, rank);
}

/// Facts about a model that is not built yet.
struct Foreseen {
  KeptRanges kept;
  std::optional<MatchedWeights> weights;
};

Foreseen foresee(const Plan& plan, int rank, const Options& options, const Make& make) {
  const ShapesOnly shapes;
  const std::unique_ptr<Module> model = make();
  Foreseen foreseen{kept_of(plan, rank, *model), std::nullopt};
  if (!foreseen.kept.of.empty() && !options.model_weights.path.empty())
    foreseen.weights.emplace(*model, options.model_weights.path, weights_selection(options.model_weights));
  return foreseen;
}

/// Sums of the first values of a model's blocks.
class BlockSums {
 public:
  /// "`h.3` ...": the name of a block, and a checksum of the values that no block before has.
  std::string line_of(const torch::nn::Module& block, const std::string& prefix) {
    const at::NoGradGuard no_grad;
    Checksum values;
    for (const at::Tensor& parameter : block.parameters()) {
      if (!seen_.insert(parameter.unsafeGetTensorImpl()).second) continue;
      const at::Tensor on_host = parameter.cpu().contiguous();
      values.add({static_cast<const char*>(on_host.const_data_ptr()), on_host.nbytes()});
    }
    return "`" + prefix.substr(0, prefix.size() - 1) + "` " + values.text();
  }

 private:
  std::set<const at::TensorImpl*> seen_;
};

/// Returns a null model if the model cannot be built so.
DividedModel build(const Plan& plan, int rank, Foreseen& foreseen, const Make& make) {
  const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
  const std::vector<std::string>& devices = plan.ranks[static_cast<std::size_t>(rank)].devices;
  const at::Device device = devices.empty() ? at::Device(at::kCPU) : at::Device(devices.front());
  const auto load = [&](torch::nn::Module& part, const std::string& prefix) {
    if (foreseen.weights) foreseen.weights->load(part, prefix);
  };
  DividedModel built;
  BlockSums sums;
  KeepRanges keep(foreseen.kept, [&](torch::nn::Module& block, const std::string& prefix) {
    load(block, prefix);
    place_layers(block, device, precision);
    built.blocks.push_back(sums.line_of(block, prefix));
  });
  built.model = make();
  load(*built.model, "");  // tensors that belong to no block
  return keep.left_alone(*built.model) ? std::move(built) : DividedModel();
}

}  // namespace

bool keeps_part_of_model(const Plan& plan, int rank, const Make& make) {
  if (!may_divide(plan)) return false;
  try {
    const ShapesOnly shapes;
    const std::unique_ptr<Module> model = make();
    return !kept_of(plan, rank, *model).of.empty();
  } catch (const std::exception&) {
    return false;
  }
}

DividedModel build_divided_model(const Plan& plan, int rank, const Options& options, const Make& make) {
  if (!may_divide(plan)) return {};
  try {
    Foreseen foreseen = foresee(plan, rank, options, make);
    if (foreseen.kept.of.empty()) return {};
    DividedModel built = build(plan, rank, foreseen, make);
    if (built.model && foreseen.weights) foreseen.weights->report();
    if (!built.model)
      log_detail("the model is built as a whole: its code uses parameters of blocks that it has added");
    return built;
  } catch (const CheckpointError&) {
    throw;
  } catch (const FileError&) {
    throw;
  } catch (const std::exception& error) {
    // The build of the whole model reports errors of the model itself.
    log_detail("the model is built as a whole, because it cannot be built block by block: " +
               shortened(message_of(error), 300));
    return {};
  }
}

void require_same_blocks(const std::vector<std::string>& blocks, World& world) {
  if (same_on_all_ranks(world, to_message(blocks))) return;
  std::vector<std::vector<std::string>> everyone = gather_values(world, blocks);
  std::vector<std::string> reference;
  std::size_t of_rank = 0;
  for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
    std::vector<std::string>& here = everyone[rank];
    if (reference.empty()) {
      reference = std::move(here);
      of_rank = rank;
    } else if (const auto found = first_difference(reference, here, "no block"); found && !here.empty()) {
      throw AgreedError(ExitCode::failure, MessageCode::ranks_diverged,
                        "the ranks have built different models: block " + std::to_string(found->index) +
                            " and its values are " + found->first + " on rank " + std::to_string(of_rank) +
                            ", and " + found->second + " on rank " + std::to_string(rank) +
                            "; draw values from LibTorch's generator, which has one seed on all ranks, and "
                            "add the same blocks on every rank");
    }
  }
}

}  // namespace cxtrain
