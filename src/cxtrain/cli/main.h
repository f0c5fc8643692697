#pragma once

#include <functional>

#include "cxtrain/plugin/registry.h"

namespace cxtrain {

/// The whole program: reads the command line, joins the MPI job that started it, runs the subcommand and
/// returns the exit status. `cxtrain_mpi` is this and nothing else; a user's own program calls it with models
/// of its own:
///
///     int main(int argc, char** argv) {
///       return cxtrain::run_main(argc, argv, [](cxtrain::Registry& registry) {
///         registry.add<cxtrain::Module>("mine", "what it is", {}, [](auto&) { return
///         std::make_unique<Mine>(); });
///       });
///     }
///
/// An error on one rank ends all of them: it is logged with rank, host and step, and the job is aborted with
/// its status.
int run_main(int argc, char** argv, const std::function<void(Registry&)>& register_components = {});

}  // namespace cxtrain
