#pragma once

#include <functional>

#include "cxtrain/config/options.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/trainer/trainer.h"

namespace cxtrain {

/// Runs the whole program: reads the command line, joins the MPI job that started it, runs the subcommand and
/// returns the exit status. `cxtrain_mpi` only makes this call, and does not destroy the static objects of
/// libraries afterwards. A user's own program calls it with its own models, callbacks and loggers, which the
/// command line then accepts by name. `configure` gets the trainer before it runs, on every rank, to add
/// components that need no name:
///
///     int main(int argc, char** argv) {
///       return cxtrain::run_main(
///           argc, argv,
///           [](cxtrain::Registry& registry) { registry.add<Mine>("mine", "what it is"); },
///           [](cxtrain::Trainer& trainer) { trainer.add_callback<MyCallback>(); });
///     }
///
/// An error on one rank ends all ranks: it is logged with rank, host and step, and the job is aborted with
/// its status. SIGTERM is ignored after the return: launchers send it to ranks that leave a moment after the
/// first rank, and the status of these ranks would be lost.
int run_main(int argc, char** argv, const std::function<void(Registry&)>& register_components = {},
             const std::function<void(Trainer&)>& configure = {});

/// Runs a program that defines its training in C++, with options in the program instead of a command line. It
/// joins the MPI job, or starts the ranks that the options request, and gives each rank a Trainer. It runs
/// `work` on every rank, reports errors, and returns the exit status. `dp` needs
/// `Trainer::set_replica_factory`.
///
///     int main(int argc, char** argv) {
///       cxtrain::Options options;
///       options.trainer.devices = "4";
///       return cxtrain::run_trainer(argc, argv, options, [](cxtrain::Trainer& trainer) {
///         MyModel model;
///         MyData data;
///         trainer.fit(model, data);
///         trainer.test(model, data);
///       });
///     }
///
/// Ranks that it starts also get `argc` and `argv`.
int run_trainer(int argc, char** argv, const Options& options, const std::function<void(Trainer&)>& work,
                const std::function<void(Registry&)>& register_components = {});

}  // namespace cxtrain
