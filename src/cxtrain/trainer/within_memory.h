#pragma once

#include <functional>
#include <map>
#include <string>

#include "cxtrain/config/rank_memory.h"

/// Checks of sizes that a user requested: sizes that do not fit into this machine give an error that names
/// the options, instead of a killed process.
namespace cxtrain {

/// Runs `build`, which makes the run's `what` ("model", "data") from the options. Until it is done, the
/// process gets no more memory than was available at its start (RLIMIT_DATA), so that no size exhausts the
/// machine. Throws ConfigError for `what` if memory does not suffice, or LibTorch rejects a size; `asked`
/// gives the options ("model.hidden=2147483647"). Other errors pass through.
void build_within_memory(const std::string& what, const std::string& asked,
                         const std::function<void()>& build);

/// "model.hidden=7, model.lr=1": `asked`. `prefix`: "model.".
std::string arguments_text(const std::string& prefix, const std::map<std::string, std::string>& arguments);

/// Throws ConfigError, with `options` and the arithmetic, if this number of float32 parameters and their
/// gradients exceed the memory of this machine. For models with a size that is known before they are built.
/// Has no effect under `ShapesOnly` and `KeepRanges`.
void require_memory_for(const std::string& options, double parameters);

/// Throws ConfigError, with a cure, if the ranks of this node cannot have the memory of a training beside
/// their parameters. `ranks`: of this node. Writes the needed memory to the log.
void require_memory_to_train(const RankMemory& needed, int ranks);

}  // namespace cxtrain
