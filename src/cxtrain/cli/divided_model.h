#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// Returns whether the plan has the rank keep a part of the model only. Never throws: the build of the model
/// reports what is wrong with the model.
bool keeps_part_of_model(const Plan& plan, int rank, const std::function<std::unique_ptr<Module>()>& make);

/// A model of which this rank has its part.
struct DividedModel {
  std::unique_ptr<Module> model;
  std::vector<std::string> blocks = {};  ///< "`h.3` ...": each block, and a checksum of its first values
};

/// Builds the model as rank `rank` of a plan needs the model: block by block, with the weights that the
/// options name. The rank keeps its part of each block (`KeepRanges`), and so never has the whole model.
/// `make` makes the whole model, and is called twice. Returns a null model, without an effect, in three
/// cases: ranks keep the whole model; the model has no blocks; the model's code uses parameters of a block
/// after `add_block`. Throws CheckpointError and FileError as `load_initial_weights` does.
DividedModel build_divided_model(const Plan& plan, int rank, const Options& options,
                                 const std::function<std::unique_ptr<Module>()>& make);

/// Checks that all ranks that have built a model in parts have built one model. `blocks`: of this rank's
/// `DividedModel`; empty if the rank has built the whole model. Throws AgreedError. Collective.
void require_same_blocks(const std::vector<std::string>& blocks, World& world);

}  // namespace cxtrain
