#include "cxtrain/trainer/init_module.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
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
#include "cxtrain/checkpoint/load_weights.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/strategy/blocks.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/tensor/piece.h"
#include "cxtrain/tensor/shapes_only.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/place_layers.h"
#include "cxtrain/trainer/within_memory.h"

namespace cxtrain {
namespace {

using Make = std::function<std::unique_ptr<Module>()>;

/// Makes the same model each time, on all ranks: LibTorch's CPU generator begins each time as rank 0's was.
class MakeAgain {
 public:
  /// Collective.
  MakeAgain(const Make& make, World& world) : make_(make), random_state_(generator_state(at::kCPU)) {
    const std::size_t bytes = random_state_.nbytes();
    const std::string of_rank_0 =
        world.broadcast(std::string(static_cast<const char*>(random_state_.const_data_ptr()), bytes));
    std::copy_n(of_rank_0.data(), std::min(bytes, of_rank_0.size()),
                static_cast<char*>(random_state_.mutable_data_ptr()));
  }
  std::unique_ptr<Module> operator()() const {
    set_generator_state(at::kCPU, random_state_);
    return make_();
  }

 private:
  const Make& make_;
  const at::Tensor random_state_;
};

WeightsSelection selection_of(const WeightsOptions& weights) {
  return {.names = NameMap::parse(weights.map), .prefix = weights.prefix, .strict = weights.strict};
}

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

Foreseen foresee(const Plan& plan, int rank, const Options& options, const MakeAgain& make) {
  const ShapesOnly shapes;
  const std::unique_ptr<Module> model = make();
  Foreseen foreseen{kept_of(plan, rank, *model), std::nullopt};
  if (!foreseen.kept.of.empty() && !options.model_weights.path.empty())
    foreseen.weights.emplace(*model, options.model_weights.path, selection_of(options.model_weights));
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

/// A model of which this rank has its part.
struct DividedModel {
  std::unique_ptr<Module> model;
  std::vector<std::string> blocks = {};  ///< "`h.3` ...": each block, and a checksum of its first values
};

/// Returns a null model if the model cannot be built so.
DividedModel build(const Plan& plan, int rank, Foreseen& foreseen, const MakeAgain& make) {
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
  if (!keep.left_alone(*built.model)) return {};
  trainable(*built.model).blocks()->set_whole(false);
  return built;
}

/// Builds the model block by block, with the weights that the options name. The rank keeps its part of each
/// block (`KeepRanges`), and so never has the whole model. Returns a null model, without an effect, in three
/// cases: ranks keep the whole model; the model has no blocks; the model's code uses parameters of a block
/// after `add_block`.
DividedModel build_divided(const Plan& plan, int rank, const Options& options, const MakeAgain& make) {
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

/// Checks that all ranks that have built a model in parts have built one model. `blocks`: of this rank's
/// `DividedModel`; empty if the rank has built the whole model. Throws AgreedError. Collective.
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

}  // namespace

std::unique_ptr<Module> init_module(World& world, const Plan& plan, const Options& options,
                                    const Make& make) {
  const MakeAgain make_again(make, world);
  DividedModel built;
  run_agreed(world, [&] {
    bool whole = false;
    build_within_memory("model", arguments_text("model.", options.model.args), [&] {
      built = build_divided(plan, world.rank(), options, make_again);
      whole = built.model == nullptr;
      if (whole) built.model = make_again();
    });
    if (whole) load_initial_weights(*built.model, options.model_weights);
  });
  require_same_blocks(built.blocks, world);
  return std::move(built.model);
}

void load_initial_weights(Module& model, const WeightsOptions& weights) {
  if (weights.path.empty()) return;
  MatchedWeights matched(model, weights.path, selection_of(weights));
  matched.load(model, "");
  matched.report();
}

}  // namespace cxtrain
