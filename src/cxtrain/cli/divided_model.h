#pragma once

#include <functional>
#include <memory>

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// Returns whether the plan has the rank keep a part of the model only. Never throws: the build of the model
/// reports what is wrong with the model.
bool keeps_part_of_model(const Plan& plan, int rank, const Options& options,
                         const std::function<std::unique_ptr<Module>()>& make);

/// Builds the model as rank `rank` of a plan needs the model: block by block, with the weights that the
/// options name. The rank keeps its part of each block (`KeepRanges`), and so never has the whole model.
/// `make` makes the whole model, and is called twice. Returns null, without an effect, in three cases: ranks
/// keep the whole model; the model has no blocks; the model's code uses parameters of a block after
/// `add_block`. Throws CheckpointError and FileError as `load_initial_weights` does.
std::unique_ptr<Module> build_divided_model(const Plan& plan, int rank, const Options& options,
                                            const std::function<std::unique_ptr<Module>()>& make);

}  // namespace cxtrain
