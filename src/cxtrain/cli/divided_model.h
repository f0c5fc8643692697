#pragma once

#include <functional>
#include <memory>

#include "cxtrain/config/options.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/trainer/module.h"

namespace cxtrain {

/// Builds the model as rank `rank` trains it: block by block, with the initial weights that the options name,
/// and with the rank's part of each block (`KeepRanges`). So the rank never has the whole model. `make`:
/// makes the whole model; called twice. Returns null, without an effect, if ranks keep the whole model, if
/// the model is no chain of blocks, or if the code of the model reads or writes parameters of blocks that are
/// built. Throws CheckpointError as `load_initial_weights` does.
std::unique_ptr<Module> build_divided_model(const Plan& plan, int rank, const Options& options,
                                            const std::function<std::unique_ptr<Module>()>& make);

}  // namespace cxtrain
