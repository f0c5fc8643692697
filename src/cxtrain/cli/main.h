#pragma once

#include <functional>

#include "cxtrain/config/options.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/trainer/trainer.h"

namespace cxtrain {

/// The whole program: reads the command line, joins the MPI job that started it, runs the subcommand and
/// returns the exit status. `cxtrain_mpi` is this, and does not destroy the static objects of libraries after
/// it; a user's own program calls it with models, callbacks and loggers of its own, which the command line
/// then knows by name. `configure` gets the trainer before it runs, on every rank, to add what needs no name:
///
///     int main(int argc, char** argv) {
///       return cxtrain::run_main(
///           argc, argv,
///           [](cxtrain::Registry& registry) {
///             registry.add<cxtrain::Module>("mine", "what it is", {},
///                                           [](auto&) { return std::make_unique<Mine>(); });
///           },
///           [](cxtrain::Trainer& trainer) { trainer.add_callback(std::make_unique<MyCallback>()); });
///     }
///
/// An error on one rank ends all of them: it is logged with rank, host and step, and the job is aborted with
/// its status. When it returns, SIGTERM is ignored: launchers send it to ranks that leave a moment later than
/// the first, and their status would be lost.
int run_main(int argc, char** argv, const std::function<void(Registry&)>& register_components = {},
             const std::function<void(Trainer&)>& configure = {});

/// The same around a program that says in C++ what is trained, with options of its own instead of a command
/// line: joins the MPI job or starts the ranks that the options ask for, gives each a Trainer, runs `work` on
/// every rank, reports errors, and returns the exit status. `dp` needs `Trainer::set_replica_factory`.
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
/// `argc` and `argv` are what ranks that it starts are given, too.
int run_trainer(int argc, char** argv, const Options& options, const std::function<void(Trainer&)>& work,
                const std::function<void(Registry&)>& register_components = {});

}  // namespace cxtrain
