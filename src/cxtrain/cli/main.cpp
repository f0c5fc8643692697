#include "cxtrain/cli/main.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/commands.h"
#include "cxtrain/cli/component_help.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cli/doctor_command.h"
#include "cxtrain/cli/help.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/job.h"
#include "cxtrain/cli/restarting.h"
#include "cxtrain/cli/same_options.h"
#include "cxtrain/cli/scaling_command.h"
#include "cxtrain/cli/slurm_script.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/cli/yaml_config.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/data/dataset_views.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/optim/setup_arguments.h"
#include "cxtrain/plugin/known_components.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/report/sparkline.h"
#include "cxtrain/report/terminal.h"
#include "cxtrain/tensor/hollow.h"
#include "cxtrain/tensor/shapes_only.h"
#include "cxtrain/trainer/data_fingerprint.h"
#include "cxtrain/trainer/generators.h"
#include "cxtrain/trainer/init_module.h"
#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/within_memory.h"

namespace cxtrain {
namespace {

/// A program: its components, and what it does with the Trainer of each rank.
struct ProgramParts {
  Options defaults = {};
  std::function<void(Registry&)> register_components = {};
  std::function<void(Trainer&)> configure = {};  ///< before a training that the options name
  std::function<void(Trainer&)> work = {};       ///< the program's own training; empty: the options name it
};

/// A command line, and what it asks for.
struct Request {
  const ProgramParts& program;
  ParsedCommandLine command;
  Registry registry;
  Components components;

  const Options& options() const { return command.options; }
};

/// Appends what a program with a training of its own does not take.
void refuse_named_training(const Options& options, std::vector<Problem>& problems) {
  const auto refuse = [&](const char* option, const std::string& given) {
    if (given.empty()) return;
    problems.push_back({option,
                        "this program trains a model of its own on data of its own, found '" + given + "'",
                        std::string("leave --") + option + " out", MessageCode::conflicting_options});
  };
  refuse("model", options.model.name);
  refuse("data", options.data.name);
  const std::string& asked = options.subcommand;
  if (asked != "validate" && asked != "test" && asked != "predict") return;
  problems.push_back({asked, "this program decides by itself what it trains and evaluates",
                      "leave the subcommand out", MessageCode::conflicting_options});
}

/// Appends what the plugins and the arguments of components are refused for.
void find_components(Request& request, std::vector<Problem>& problems) {
  const ProgramParts& program = request.program;
  if (program.register_components) program.register_components(request.registry);
  if (program.work)
    refuse_named_training(request.options(), problems);
  else
    choose_model(request.registry, request.command.model_given, request.command.options, problems);
  request.components = load_components(request.registry, request.options(), problems);
}

/// For --print_config, which makes no plan: fills the arguments of the strategy in where the options name
/// one. Where they do not, they are only checked, against the arguments of the one that several ranks have
/// then.
void find_strategy_arguments(Request& request, std::vector<Problem>& problems) {
  const Options& options = request.options();
  const KnownStrategies strategies = load_strategies(request.registry, options, problems);
  const auto named = named_strategy(options.trainer, names_of(strategies));
  std::vector<Problem> warnings;  // for the run
  Arguments arguments =
      strategy_arguments(named.value_or(kStrategyOfSeveralRanks), strategies, options, problems, warnings);
  if (named) request.components.strategy = std::move(arguments);
}

/// Subcommands and options that only print something. Rank 0 does it; no other rank is asked.
bool only_prints(const ParsedCommandLine& command) {
  const Subcommand& subcommand = *find_subcommand(command.options.subcommand);
  const bool looks = subcommand.kind == Subcommand::Kind::look && subcommand.name != kDoctor;
  return command.help != HelpAsked::none || command.version || command.print_config || looks ||
         subcommand.kind == Subcommand::Kind::phrase;
}

/// Returns the setups of the model's optimizers, and leaves the same parameters frozen as before:
/// `configure_optimizers` may freeze some, and strategies lay out memory before a fit calls it.
std::vector<NamedOptimizer> setups_ahead_of_fit(Module& model, const Options& options) {
  const std::vector<NamedTensor> parameters = model.all_parameters();
  std::vector<bool> trained;
  for (const NamedTensor& parameter : parameters) trained.push_back(parameter.tensor.requires_grad());
  std::vector<NamedOptimizer> setups = optimizer_setups(model, options);
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].tensor.set_requires_grad(trained[i]);
  return setups;
}

/// Throws ConfigError, before the run has a folder, if this model cannot be trained with these options.
void check_fit(Module& model, const Options& options) {
  double here = 0;  // other elements lie on other ranks
  for (const NamedTensor& named : model.all_parameters()) {
    if (!is_hollow(named.tensor)) here += static_cast<double>(named.tensor.numel());
  }
  require_memory_for("model", here);
  // Arguments of an optimizer or schedule that only the model names.
  const auto unnamed = [](const NamedOptions& asked) { return asked.name.empty() && !asked.args.empty(); };
  if (!unnamed(options.optimizer) && !unnamed(options.lr_scheduler)) return;
  std::vector<Problem> problems;
  for (const NamedOptimizer& optimizer : setups_ahead_of_fit(model, options)) {
    const std::vector<Problem> found = check_setup(optimizer.setup);
    problems.insert(problems.end(), found.begin(), found.end());
  }
  if (!problems.empty()) throw ConfigError(problems);
}

/// The model that the options ask for, the same on every rank and in every replica, with the values of its
/// constructor.
std::unique_ptr<Module> make_seeded_model(const Request& request) {
  seed_everything(request.options().seed.value_or(0));
  return make_model(request.registry, request.options(), request.components);
}

struct Trained {
  std::unique_ptr<Module> model;
  std::unique_ptr<DataModule> data;
};

std::unique_ptr<DataModule> build_data(const Request& request, Module& model) {
  const Options& options = request.options();
  std::unique_ptr<DataModule> data;
  build_within_memory("data", arguments_text("data.", options.data.args),
                      [&] { data = make_data(request.registry, options, request.components, model); });
  return data;
}

/// The whole model and the data that the options ask for; what their constructors and a fit's settings are
/// refused for comes out as an Error. The data is not read yet.
Trained build_components(const Request& request) {
  const Options& options = request.options();
  Trained built;
  build_within_memory("model", arguments_text("model.", options.model.args),
                      [&] { built.model = make_seeded_model(request); });
  load_initial_weights(*built.model, options.model_weights);
  built.data = build_data(request, *built.model);
  if (options.subcommand == "fit" || options.subcommand == "plan") check_fit(*built.model, options);
  return built;
}

/// Appends a problem where there are no weights at the place that the options name: found out before ranks
/// are started, which takes longer.
void find_weights(const Options& options, std::vector<Problem>& problems) {
  const std::string& path = options.model_weights.path;
  try {
    if (path.empty() || real_filesystem().status(path)) return;
    problems.push_back({"model.weights", "there is no file or folder '" + path + "'", "check the path",
                        MessageCode::checkpoint_missing});
  } catch (const FileError& error) {
    problems.push_back({"model.weights", error.what(), "", message_code_of(error)});
  }
}

/// Appends what only building tells, where the command line has changed anything that could be refused so.
/// For another machine than this one nothing is built: it may not fit here.
void try_components(const Request& request, std::vector<Problem>& problems) {
  const Options& options = request.options();
  const bool changed = !options.model.args.empty() || !options.data.args.empty() ||
                       !options.optimizer.args.empty() || !options.lr_scheduler.args.empty() ||
                       !options.model_weights.path.empty();
  if (!changed || !options.hardware_file.empty() || request.program.work) return;
  find_weights(options, problems);
  if (!problems.empty()) return;
  try {
    build_components(request);
  } catch (const ConfigError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  } catch (const CheckpointError& error) {
    problems.push_back({"model.weights", error.what(), "", message_code_of(error)});
  } catch (const Error& error) {
    problems.push_back({"model", error.what(), "", message_code_of(error)});
  }
}

/// The plan, with the memory of its ranks if the user names a model that can be built without memory.
ResolvedPlan plan_with_memory(const Request& request, const KnownStrategies& strategies) {
  ResolvedPlan resolved = make_plan(request.options(), strategies);
  if (!resolved.plan.ok() || !request.command.model_given) return resolved;
  try {
    const ShapesOnly shapes;
    const std::unique_ptr<Module> model = make_seeded_model(request);
    fill_in_memory(resolved.plan, resolved.hardware, request.options(), *model);
  } catch (const ConfigError& error) {
    std::vector<Problem>& errors = resolved.plan.errors;
    errors.insert(errors.end(), error.problems().begin(), error.problems().end());
  } catch (const std::exception& error) {  // the model reads values while it is built
    log_detail(std::string("the memory of the plan is not known: ") + error.what());
  }
  return resolved;
}

/// Help, and the scripts that complete command lines.
std::string explanation(const ParsedCommandLine& command, const HelpSource& source) {
  const Subcommand& subcommand = *find_subcommand(command.options.subcommand);
  const bool asked = command.help != HelpAsked::none;
  if (subcommand.name == "completion" && !asked) return completion_script(command.phrase, source);
  if (subcommand.name == "help") return help_on(command.phrase, source);
  return subcommand_help(subcommand.name, source);
}

bool asks_for_one_screen(const ParsedCommandLine& command) {
  return command.help == HelpAsked::brief &&
         find_subcommand(command.options.subcommand)->kind == Subcommand::Kind::train;
}

/// What such a command prints, and its exit status. `words`: the command line; `program`: what it is for.
int answer(Request& request, std::span<const char* const> words, const std::string& program,
           std::ostream& out) {
  const ParsedCommandLine& command = request.command;
  if (command.version) return out << version_line() << '\n', 0;
  const std::string name = std::filesystem::path(program).filename().string();
  // Before plugins are opened, which this screen does not show.
  if (asks_for_one_screen(command)) return out << brief_help(name, request.program.defaults, help_width()), 0;
  std::vector<Problem> problems = command.problems;
  find_components(request, problems);
  const Options& options = request.options();
  const auto help_source = [&] {
    return HelpSource{name, options, request.program.defaults, component_sections(request.registry, options),
                      help_width()};
  };
  const bool explains = find_subcommand(options.subcommand)->kind == Subcommand::Kind::phrase;
  if (explains && command.help == HelpAsked::none && !command.problems.empty())
    throw ConfigError(command.problems);
  if (explains || command.help != HelpAsked::none) return out << explanation(command, help_source()), 0;
  if (options.subcommand == "plan" && !command.print_config) {
    try_components(request, problems);
    const KnownStrategies strategies = load_strategies(request.registry, options, problems);
    const int columns = drawing_columns(STDOUT_FILENO);
    if (!problems.empty()) return print_plan(make_plan(options, strategies), options, out, problems, columns);
    return print_plan(plan_with_memory(request, strategies), options, out, problems, columns);
  }
  if (options.subcommand == kSlurmScript && !command.print_config) {
    if (problems.empty()) find_weights(options, problems);
    const KnownStrategies strategies = load_strategies(request.registry, options, problems);
    return run_slurm_script(options, words, program, options.batch_job.submit ? std::cout : out, strategies,
                            problems);
  }
  if (options.subcommand == "info" && !command.print_config) {
    if (!command.problems.empty()) throw ConfigError(command.problems);
    return run_info(options, version_lines(), help_source(), out);
  }
  find_strategy_arguments(request, problems);
  if (!problems.empty()) throw ConfigError(problems);
  return out << to_yaml(with_all_arguments(options, request.components)), 0;
}

/// Flushes the standard output. Somebody waits for the output: what could not be written is a failure. A
/// reader that has gone away (`| head`) needs no message. Returns 0, or the status of a failure.
int flush_output() {
  if (std::cout << std::flush) return 0;
  if (errno != EPIPE) {
    throw Error(ExitCode::failure, MessageCode::file_failed,
                std::string("cannot write to standard output: ") + std::strerror(errno != 0 ? errno : EIO));
  }
  return static_cast<int>(ExitCode::failure);
}

/// Prints what `answer` writes, and returns its status.
int print(const std::function<int(std::ostream&)>& answer) {
  std::ostringstream text;
  const int status = answer(text);
  errno = 0;
  std::cout << text.str();
  const int failed = flush_output();
  return failed != 0 ? failed : status;
}

/// Everything that can be refused before any rank talks to another: all of it, at once.
Plan check(Request& request, const WorldFacts& facts, const Hardware& hardware) {
  std::vector<Problem> problems = request.command.problems;
  find_components(request, problems);
  const Options& options = request.options();
  find_weights(options, problems);
  const KnownStrategies strategies = load_strategies(request.registry, options, problems);
  Plan plan = resolve(options, hardware, facts, strategies);
  plan.callbacks = request.components.chosen.callbacks;
  plan.loggers = request.components.chosen.loggers;
  problems.insert(problems.end(), plan.errors.begin(), plan.errors.end());
  check_restarts(options, plan, facts, problems);
  if (!problems.empty()) throw ConfigError(problems);
  if (named_strategy(options.trainer, names_of(strategies)))
    request.components.strategy = plan.strategy_arguments;
  return plan;
}

RunSummary train_named(World& world, Trainer& trainer, Request& request) {
  const Options& options = request.options();
  const auto make = [&] { return make_seeded_model(request); };
  trainer.set_replica_factory(make);
  const std::unique_ptr<Module> model = trainer.init_module(make);
  std::unique_ptr<DataModule> data;
  run_agreed(world, [&] {
    data = build_data(request, *model);
    if (options.subcommand == "fit") check_fit(*model, options);
  });
  if (options.subcommand == "validate") return trainer.validate(*model, *data);
  if (options.subcommand == "test") return trainer.test(*model, *data);
  if (options.subcommand == "predict") return trainer.predict(*model, *data);
  return trainer.fit(*model, *data);
}

/// `doctor`: a plan with errors is one of the things that it finds.
int examine(Job& job, Request& request, const Hardware& hardware) {
  World& world = job.world();
  Plan plan;
  run_agreed(world, [&] {
    std::vector<Problem> problems = request.command.problems;
    find_components(request, problems);
    const KnownStrategies strategies = load_strategies(request.registry, request.options(), problems);
    if (!problems.empty()) throw ConfigError(problems);
    plan = resolve(request.options(), hardware, world.facts(), strategies);
  });
  if (plan.ok() && needs_launch(plan, world.facts())) return job.start_ranks(plan);
  const auto fingerprint = [&] {
    if (request.program.work) return std::string();
    const Trained built = build_components(request);
    built.data->setup(Stage::fit, request.options().data);
    std::vector<DatasetPtr> datasets;
    const Loaders loaders = built.data->train_dataloader();
    for (const DataLoaderSpec& spec : loaders.specs()) {
      if (spec.dataset) datasets.push_back(spec.dataset);
    }
    if (datasets.empty()) return std::string();
    return to_text(fingerprint_of(*concat(std::move(datasets)), SteadyClock()));
  };
  return print([&](std::ostream& out) {
    return run_doctor(world, {request.options(), plan, hardware, fingerprint}, real_filesystem(), out);
  });
}

/// The losses of a training, where the log comes to a terminal that can show them. Rank 0 calls it.
void print_sparklines(const RunSummary& summary, const Trainer& trainer) {
  const int columns = TerminalOutput(/*launched=*/trainer.plan().launcher != "none").drawing_columns();
  if (columns == 0 || trainer.log_dir().empty() || summary.global_step == 0) return;
  for (const std::string& line : sparklines_of_run(real_filesystem(), trainer.log_dir(), columns))
    log_info(line);
}

/// Families of metrics, such as device statistics, are for the files. Metrics of several loaders are none.
bool is_of_a_family(std::string_view name) {
  return name.substr(0, name.find("/dataloader_idx_")).find('/') != std::string_view::npos ||
         name.starts_with("grad_");
}

/// Every rank calls it.
void print_result(const World& world, const RunSummary& summary, const Trainer& trainer) {
  if (world.is_root()) print_sparklines(summary, trainer);
  std::ostringstream line;
  line << summary.status;
  if (!summary.stopped_by.empty()) line << " by " << summary.stopped_by;
  if (summary.exit_code == static_cast<int>(ExitCode::requeue))
    line << ", with its state saved (start it again to resume)";
  if (summary.exit_code == static_cast<int>(ExitCode::terminated)) line << ", without its state saved";
  if (summary.epochs > 0 || summary.global_step > 0)
    line << ": " << summary.epochs << " epochs, " << summary.global_step << " steps";
  line << " in " << format_metric(summary.seconds) << " s";
  if (summary.samples_per_second > 0) line << ", " << format_rate(summary.samples_per_second) << " samples/s";
  for (const auto& [name, value] : summary.metrics) {
    if (!is_of_a_family(name)) line << ", " << name << " " << format_metric(value);
  }
  if (!trainer.log_dir().empty()) line << " (" << trainer.log_dir() << "/run.json)";
  log_info(line.str());
}

/// The program's own training. Returns its exit status.
int train_own(World& world, Trainer& trainer, const Request& request) {
  const Options& options = request.options();
  seed_everything(options.seed.value_or(0));  // every rank builds the same model
  try {
    request.program.work(trainer);
  } catch (const StoppedBefore& stopped) {
    if (world.is_root()) log_warning(stopped.what());
  }
  const std::optional<RunSummary>& last = trainer.last_summary();
  if (!last) return 0;
  print_result(world, *last, trainer);
  return last->exit_code;
}

/// Trains by the rank's trainer, on every rank. Returns the exit status.
int train(World& world, Trainer& trainer, Request& request) {
  if (request.program.work) return train_own(world, trainer, request);
  if (request.program.configure) run_agreed(world, [&] { request.program.configure(trainer); });
  const RunSummary summary = train_named(world, trainer, request);
  print_result(world, summary, trainer);
  return summary.exit_code;
}

/// A subcommand that all ranks take part in. `trainer` is made for those that train.
int work_together(Job& job, Request& request, std::optional<Trainer>& trainer) {
  World& world = job.world();
  const Hardware hardware = job.hardware();
  if (request.options().subcommand == kDoctor) return examine(job, request, hardware);
  Plan plan;
  run_agreed(world, [&] { plan = check(request, world.facts(), hardware); });
  require_same_options(world, request.options());
  if (restarts_job(request.options(), world.facts())) {
    return run_with_restarts(make_restart_plan(request.options(), plan, job.program(), real_filesystem()));
  }
  if (needs_launch(plan, world.facts())) return job.start_ranks(plan);
  trainer.emplace(world, request.options(), std::move(plan), request.registry);
  trainer->set_outputs(
      {.log = &job.log(), .config_yaml = to_yaml(with_all_arguments(request.options(), request.components))});
  return train(world, *trainer, request);
}

int run_program(int argc, char** argv, const ProgramParts& program) {
  number_gpus_by_pci_bus();
  return run_to_status([&] {
    const std::span<const char* const> args(argv + 1, static_cast<std::size_t>(std::max(argc - 1, 0)));
    if (asks_for_network(args)) {
      Job job(argc, argv, {.timeout_seconds = kDoctorSeconds});
      return job.run([&] { return run_network_command(job, args.subspan(1), real_filesystem(), std::cout); },
                     [] { return std::string(); });
    }
    const Subcommand* const command = find_subcommand(args.empty() ? "" : args.front());
    if (command != nullptr && command->run != nullptr) {
      if (read_launch_environment().rank != 0) return 0;
      if (command->prints_as_it_works) {
        const int status = command->run(args.subspan(1), std::cout);
        return status != 0 ? status : flush_output();
      }
      return print([&](std::ostream& out) { return command->run(args.subspan(1), out); });
    }
    Request request{program, read_command_line(args, read_text_file, program.defaults), {}, {}};
    const Options& options = request.options();
    Job job(
        argc, argv,
        {.timeout_seconds = options.subcommand == kDoctor ? std::min(kDoctorSeconds, options.timeout_seconds)
                                                          : options.timeout_seconds,
         .quiet = options.quiet});
    if (only_prints(request.command)) {
      if (!job.world().is_root()) return 0;
      return print([&](std::ostream& out) { return answer(request, args, job.program().path, out); });
    }
    std::optional<Trainer> trainer;
    return job.run([&] { return work_together(job, request, trainer); },
                   [&] { return trainer ? trainer->where() : std::string(); });
  });
}

}  // namespace

int run_main(int argc, char** argv, const std::function<void(Registry&)>& register_components,
             const std::function<void(Trainer&)>& configure) {
  return run_program(argc, argv, {.register_components = register_components, .configure = configure});
}

int run(int argc, char** argv, const Options& defaults, const std::function<void(Trainer&)>& work,
        const std::function<void(Registry&)>& register_components) {
  ProgramParts program{.defaults = defaults, .register_components = register_components, .work = work};
  program.defaults.model.name.clear();  // the model is the program's own
  return run_program(argc, argv, program);
}

}  // namespace cxtrain
