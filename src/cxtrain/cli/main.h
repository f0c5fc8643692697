#pragma once

#include <functional>

#include "cxtrain/config/options.h"
#include "cxtrain/plugin/registration.h"
#include "cxtrain/plugin/registry.h"
#include "cxtrain/trainer/trainer.h"

namespace cxtrain {

/// Runs the whole program: reads the command line, joins the MPI job that started it, runs the subcommand and
/// returns the exit status. `cxtrain_mpi` only makes this call, and does not destroy the static objects of
/// libraries afterwards. A user's own program registers its own models, callbacks and loggers, which the
/// command line then accepts by name:
///
///     CXTRAIN_REGISTER(MyModel, "mine", "my model");
///
///     int main(int argc, char** argv) { return cxtrain::run_main(argc, argv); }
///
/// A function `register_components` may register them instead. `configure` gets the trainer before it runs,
/// on every rank, to add components that need no name.
///
/// An error on one rank ends all ranks: it is logged with rank, host and step, and the job is aborted with
/// its status. SIGTERM is ignored after the return: launchers send it to ranks that leave a moment after the
/// first rank, and the status of these ranks would be lost.
int run_main(int argc, char** argv,
             const std::function<void(Registry&)>& register_components = Registration::add_all,
             const std::function<void(Trainer&)>& configure = {});

/// Runs a program that defines its training in C++. `defaults` replace the built-in defaults of the options;
/// the command line and `--config` files win over `defaults`. It joins the MPI job, or starts the ranks that
/// the options request, and gives each rank a Trainer. It runs `work` on every rank, reports errors, and
/// returns the exit status. `dp` needs `Trainer::set_replica_factory`.
///
///     int main(int argc, char** argv) {
///       return cxtrain::run(argc, argv, {.trainer = {.devices = 4, .max_epochs = 10}},
///                           [](cxtrain::Trainer& trainer) {
///                             MyModel model;
///                             MyData data;
///                             trainer.fit(model, data);
///                             trainer.test(model, data);
///                           });
///     }
///
/// Callbacks and loggers of `register_components` are available by name. `--model` and `--data` are rejected,
/// and so are `validate`, `test` and `predict`, since `work` decides about them. Other subcommands (`plan`,
/// `status`, `report`, `help` ...) work as in `cxtrain_mpi`.
int run(int argc, char** argv, const Options& defaults, const std::function<void(Trainer&)>& work,
        const std::function<void(Registry&)>& register_components = Registration::add_all);

}  // namespace cxtrain
