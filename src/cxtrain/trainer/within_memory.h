#pragma once

#include <functional>
#include <string>

/// Sizes that a user asked for and that do not fit into this machine: found out while something is built,
/// with the options named, instead of by a process that is killed.
namespace cxtrain {

/// Runs `build`, which makes the run's `what` ("model", "data") as the options ask. Until it is done the
/// process gets no more memory than was available when it began (RLIMIT_DATA), so that no size makes the
/// machine run out of it. Throws ConfigError for `what` where memory does not suffice, or LibTorch refuses a
/// size; `asked` tells the options ("model.hidden=2147483647"). Other errors pass.
void build_within_memory(const std::string& what, const std::string& asked,
                         const std::function<void()>& build);

/// Throws ConfigError naming `options` and the arithmetic where so many float32 parameters and their
/// gradients are more than the memory of this machine. For models that know their size before they are built.
void require_memory_for(const std::string& options, double parameters);

}  // namespace cxtrain
