#include "cxtrain/cluster/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/mpi_world.h"

namespace cxtrain {
namespace {

WorldFacts solo_facts() {
  WorldFacts facts;
  facts.hostname = hostname();
  return facts;
}

int number_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

/// "<exit status> <code of the message> <message>"; "0" where nothing was thrown.
std::string outcome_of(const std::function<void()>& work) {
  try {
    work();
    return "0";
  } catch (const std::exception& error) {
    return std::to_string(static_cast<int>(code_of(error))) + " " +
           std::to_string(static_cast<int>(message_code_of(error))) + " " + message_of(error);
  } catch (...) {
    return std::to_string(static_cast<int>(ExitCode::failure)) + " 0 " + message_of_other_exception();
  }
}

bool has_failed(const std::string& outcome) { return outcome != "0"; }

/// Where a rank has failed, what the first of them says.
void throw_first_failure(const std::vector<std::string>& outcomes) {
  const auto failed = std::ranges::find_if(outcomes, has_failed);
  if (failed == outcomes.end()) return;
  const std::size_t second = failed->find(' ') + 1, third = failed->find(' ', second) + 1;
  const auto code = static_cast<ExitCode>(std::stoi(*failed));
  const auto message_code = static_cast<MessageCode>(std::stoi(failed->substr(second)));
  std::string message = failed->substr(third);
  if (std::ranges::any_of(outcomes, [&](const auto& text) { return text != *failed; })) {
    message = "rank " + std::to_string(failed - outcomes.begin()) + ": " + message;
  }
  throw AgreedError(code, message_code, message);
}

/// Of ranks that do not know of each other each would train alone.
void require_no_others(LaunchedBy launcher) {
  const auto refuse = [](int started, const std::string& what, const std::string& cause) {
    if (started > 1)
      throw CommunicationError(what + ", but MPI sees a world of one (each would train alone): " + cause,
                               MessageCode::wrong_mpi);
  };
  if (launcher == LaunchedBy::srun) {
    const int tasks = number_in("SLURM_STEP_NUM_TASKS");
    refuse(tasks, "srun started " + std::to_string(tasks) + " tasks",
           "this MPI was built without PMIx support for Slurm; use `mpirun` inside the allocation");
  } else if (launcher == LaunchedBy::mpirun) {
    const int processes = read_launch_environment().size;
    refuse(processes, "mpirun started " + std::to_string(processes) + " processes",
           "it belongs to another MPI than this program's; use the mpirun of the Open MPI that cxtrain was "
           "built with, or `srun --mpi=pmix`");
  }
}

}  // namespace

std::vector<std::string> World::gather_nodes(std::string_view text) {
  std::vector<std::string> of_ranks = all_gather(facts_.local_rank == 0 ? text : std::string_view());
  if (facts_.rank_nodes.empty()) return {of_ranks.front()};
  std::vector<std::string> of_nodes(static_cast<std::size_t>(facts_.num_nodes));
  // Backwards: the first rank of a node comes last.
  for (std::size_t rank = of_ranks.size(); rank-- > 0;)
    of_nodes[static_cast<std::size_t>(facts_.rank_nodes[rank])] = std::move(of_ranks[rank]);
  return of_nodes;
}

SoloWorld::SoloWorld() : World(solo_facts()) {}

void SoloWorld::set_timeout(double seconds, std::function<std::string()> where) {
  timeout_seconds_ = seconds;
  where_ = std::move(where);
  if (watchdog_) watchdog_->set_timeout(seconds);
}

Watchdog& SoloWorld::watchdog() {
  if (!watchdog_) {
    watchdog_.emplace(timeout_seconds_, [this](Watchdog::Cause cause, const char* operation, double seconds) {
      if (cause == Watchdog::Cause::signal)
        return process_end().rescue(static_cast<int>(ExitCode::terminated));
      end(cause, operation, seconds);
    });
  }
  return *watchdog_;
}

void SoloWorld::end(Watchdog::Cause cause, const char* operation, double seconds) {
  const int status = static_cast<int>(ExitCode::failure);
  const std::string where = where_ ? where_() : std::string();
  const bool failed = cause == Watchdog::Cause::error;
  const std::string what = failed ? std::string(operation)
                                  : std::string(operation) + " has not ended within " +
                                        std::to_string(static_cast<int>(seconds)) +
                                        " s (--timeout_seconds sets the limit): a device or a disk does not "
                                        "answer, see dmesg and nvidia-smi";
  log_error(with_code("on " + facts().hostname + (where.empty() ? "" : ", " + where) + ": " + what,
                      failed ? MessageCode::communication_failed : MessageCode::timeout));
  if (watchdog_) log_detail(watchdog_->record());
  process_end().rescue(status);
  process_end().report(status);
  _exit(status);  // the other thread may be inside the device's driver
}

std::unique_ptr<World> make_world(double timeout_seconds) {
  if (detect_launcher() == LaunchedBy::alone) {
    if (const int tasks = number_in("SLURM_STEP_NUM_TASKS"); tasks > 1) {
      throw CommunicationError(
          "Slurm started " + std::to_string(tasks) +
              " tasks that do not see each other (each "
              "would train alone); use `srun --mpi=pmix`, or `mpirun` inside the allocation",
          MessageCode::wrong_mpi);
    }
    return std::make_unique<SoloWorld>();
  }
  auto world = MpiWorld::start(timeout_seconds);
  if (world->size() == 1) require_no_others(world->facts().launched_by);
  return world;
}

bool same_on_all_ranks(World& world, std::string_view text) {
  const std::uint64_t hash = std::hash<std::string_view>{}(text);
  // No bit is set on one rank and not on another.
  return (world.any(hash) & world.any(~hash)) == 0;
}

void run_agreed(World& world, const std::function<void()>& work) {
  const std::string outcome = outcome_of(work);
  if (!world.any_rank(has_failed(outcome))) return;
  throw_first_failure(world.all_gather(outcome));
}

}  // namespace cxtrain
