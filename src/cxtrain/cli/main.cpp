#include "cxtrain/cli/main.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>

#include "cxtrain/base/log.h"
#include "cxtrain/base/process_setup.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/components.h"
#include "cxtrain/cli/info_command.h"
#include "cxtrain/cli/plan_command.h"
#include "cxtrain/cli/versions.h"
#include "cxtrain/cli/yaml_config.h"
#include "cxtrain/cluster/agree.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/device/gather_hardware.h"
#include "cxtrain/launchers/launch.h"
#include "cxtrain/launchers/supervisor.h"
#include "cxtrain/memory/cpu_allocator.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/strategy/strategy.h"
#include "cxtrain/trainer/train_state.h"
#include "cxtrain/trainer/trainer.h"

namespace cxtrain {
namespace {

/// A command line, and what it asks for.
struct Request {
  ParsedCommandLine command;
  Registry registry;
  Components components;

  const Options& options() const { return command.options; }
};

/// Subcommands and options that only print something. Rank 0 does it; no other rank is asked.
bool only_prints(const ParsedCommandLine& command) {
  return command.help || command.version || command.print_config || command.options.subcommand == "plan" ||
         command.options.subcommand == "info";
}

/// What such a command prints, and its exit status.
int answer(Request& request, std::ostream& out) {
  const ParsedCommandLine& command = request.command;
  if (command.help) {
    out << command.help_text;
    return 0;
  }
  if (command.version) {
    out << version_line() << '\n';
    return 0;
  }
  const bool plan = command.options.subcommand == "plan";
  if (!command.problems.empty()) {
    if (!plan || !command.options.json) throw ConfigError(command.problems);
    print_refused_plan(command.problems, out);
    return static_cast<int>(ExitCode::refused);
  }
  if (command.print_config) {
    out << to_yaml(command.options);
    return 0;
  }
  if (plan) {
    return run_plan(command.options, out, PluginLoader(request.registry).available(Strategy::kKind));
  }
  return run_info(command.options, version_lines(), out);
}

/// Somebody waits for the answer: one that could not be written is a failure. Who has gone away (`| head`)
/// needs no message.
int print(Request& request) {
  std::ostringstream text;
  const int status = answer(request, text);
  errno = 0;
  std::cout << text.str() << std::flush;
  if (std::cout) return status;
  if (errno != EPIPE) {
    throw Error(ExitCode::failure,
                std::string("cannot write to standard output: ") + std::strerror(errno != 0 ? errno : EIO));
  }
  return static_cast<int>(ExitCode::failure);
}

/// Everything that can be refused before any rank talks to another: all of it, at once.
Plan check(Request& request, const WorldFacts& facts, const Hardware& hardware,
           const std::function<void(Registry&)>& register_components) {
  std::vector<Problem> problems = request.command.problems;
  if (register_components) register_components(request.registry);
  request.components = load_components(request.registry, request.options(), problems);
  Plan plan = resolve(request.options(), hardware, facts);
  problems.insert(problems.end(), plan.errors.begin(), plan.errors.end());
  if (!problems.empty()) throw ConfigError(problems);
  return plan;
}

/// A model that cannot be built for want of memory, or in LibTorch's opinion, has the wrong arguments.
std::unique_ptr<Module> build_model(const Request& request) {
  const auto refuse = [](const std::exception& error) {
    return ConfigError("model", "cannot be built with its arguments: " + message_of(error), "");
  };
  try {
    return make_model(request.registry, request.options(), request.components);
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    throw refuse(error);
  } catch (const std::bad_alloc& error) {
    throw refuse(error);
  } catch (const std::length_error& error) {
    throw refuse(error);
  }
}

RunSummary run(World& world, Trainer& trainer, Request& request) {
  const Options& options = request.options();
  const auto build = [&] {
    seed_everything(options.seed.value_or(0), -1);  // every rank, and every replica, is the same model
    return build_model(request);
  };
  trainer.set_replica_factory(build);
  std::unique_ptr<Module> model;
  std::unique_ptr<DataModule> data;
  run_agreed(world, [&] {
    model = build();
    data = make_data(request.registry, options, request.components, *model);
  });
  if (options.subcommand == "validate") return trainer.validate(*model, *data);
  if (options.subcommand == "test") return trainer.test(*model, *data);
  if (options.subcommand == "predict") return trainer.predict(*model, *data);
  return trainer.fit(*model, *data);
}

void print_result(const RunSummary& summary, const std::string& log_dir) {
  std::ostringstream line;
  line << summary.status;
  if (summary.exit_code == static_cast<int>(ExitCode::interrupted)) line << " by SIGINT";
  if (summary.exit_code == static_cast<int>(ExitCode::terminated)) line << " by SIGTERM";
  line << ": " << summary.epochs << " epochs, " << summary.global_step << " steps in "
       << format_metric(summary.seconds) << " s";
  if (summary.samples_per_second > 0) line << ", " << format_rate(summary.samples_per_second) << " samples/s";
  // Families of metrics, such as device statistics, are for the files.
  for (const auto& [name, value] : summary.metrics) {
    if (name.find('/') == std::string::npos && !name.starts_with("grad_"))
      line << ", " << name << " " << format_metric(value);
  }
  if (!log_dir.empty()) line << " (" << log_dir << "/run.json)";
  log_info(line.str());
}

/// Reports an error of this rank alone and ends the job: the others may be waiting for it for ever.
int abort_job(World& world, SupervisorLink& supervisor, const std::string& where, ExitCode code,
              const std::string& message) {
  const WorldFacts& facts = world.facts();
  log_error("rank " + std::to_string(facts.rank) + " on " + facts.hostname +
            (where.empty() ? "" : ", " + where) + ": " + message);
  supervisor.report(static_cast<int>(code));
  world.abort(static_cast<int>(code));
  return static_cast<int>(code);
}

/// Joins the ranks' fates: an error that all have is reported once, one of a single rank ends the job.
int run_guarded(World& world, SupervisorLink& supervisor, Log& log, Request& request, const Program& program,
                const std::function<void(Registry&)>& register_components) {
  std::optional<Trainer> trainer;
  const auto where = [&] { return trainer ? trainer->where() : std::string(); };
  try {
    Plan plan;
    const Hardware hardware = gather_hardware(world);
    run_agreed(world, [&] { plan = check(request, world.facts(), hardware, register_components); });
    if (needs_launch(plan, world.facts())) {
      return start_ranks(plan, program, request.options().timeout_seconds);
    }
    trainer.emplace(world, request.options(), std::move(plan), request.registry);
    trainer->set_log(log);
    trainer->set_config_text(to_yaml(request.options()));
    const RunSummary summary = run(world, *trainer, request);
    print_result(summary, trainer->log_dir());
    return summary.exit_code;
  } catch (const AgreedError& error) {
    if (world.is_root()) log_error(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    return abort_job(world, supervisor, where(), code_of(error), message_of(error));
  } catch (...) {
    return abort_job(world, supervisor, where(), ExitCode::failure,
                     "an exception that is no std::exception was thrown");
  }
}

/// Some libraries cannot work without one, and say so in words of their own.
void require_current_folder() {
  std::error_code failed;
  static_cast<void>(std::filesystem::current_path(failed));
  if (failed) {
    throw ConfigError("", "the current folder cannot be used: " + failed.message(), "change to one that exists");
  }
}

}  // namespace

int run_main(int argc, char** argv, const std::function<void(Registry&)>& register_components) {
  set_up_process();
  keep_freed_memory();
  const std::span<const char* const> args(argv + 1, static_cast<std::size_t>(std::max(argc - 1, 0)));
  try {
    require_current_folder();
    Request request;
    request.command = read_command_line(args, read_text_file);
    const int rank = read_launch_environment().rank;
    Log log(rank);
    // Before MPI starts: a rank that dies there would be missed by nobody.
    SupervisorLink supervisor(rank);
    const std::unique_ptr<World> world = make_world(request.options().timeout_seconds);
    world->set_end_report([&](int status) { supervisor.report(status); });
    const int status =
        only_prints(request.command)
            ? (world->is_root() ? print(request) : 0)
            : run_guarded(*world, supervisor, log, request, this_program(argc, argv), register_components);
    supervisor.report(status);
    return status;
  } catch (const std::exception& error) {
    std::cerr << "error: " << message_of(error) << '\n';
    return static_cast<int>(code_of(error));
  }
}

}  // namespace cxtrain
