#include "launchers/launcher.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/config/plan.h"
#include "launchers/mpirun.h"
#include "launchers/signal_inbox.h"
#include "launchers/slurm.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

TEST_CASE("a plan without a launcher, or whose launcher has started the ranks, starts none") {
  const Program program{"/bin/true", {}};
  Plan plan;
  plan.launcher = GENERATE("none", "mpirun");
  CHECK_THROWS_AS(start_ranks(plan, program, 1), CommunicationError);
}

TEST_CASE("ranks are started only where nobody has started them") {
  struct Row {
    const char* launcher;
    LaunchedBy by;
    bool needed;
  };
  const Row row = GENERATE(values<Row>({{"none", LaunchedBy::alone, false},
                                        {"subprocess", LaunchedBy::alone, true},
                                        {"spawn", LaunchedBy::alone, true},
                                        {"mpirun", LaunchedBy::mpirun, false},
                                        {"srun", LaunchedBy::srun, false},
                                        {"srun", LaunchedBy::alone, true},
                                        {"spawn", LaunchedBy::spawn, false}}));
  Plan plan;
  plan.launcher = row.launcher;
  WorldFacts facts;
  facts.launched_by = row.by;
  CHECK(needs_launch(plan, facts) == row.needed);
}

TEST_CASE("signals that the process ignores do not arrive in an inbox") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    SignalInbox inbox;
    raise(SIGHUP);
    CHECK_FALSE(inbox.take());
    raise(SIGUSR1);
    CHECK(inbox.take() == SIGUSR1);
  }
  std::signal(SIGHUP, before);
}

TEST_CASE("mpirun gets the program and its arguments as they are") {
  CHECK(mpirun_command(4, 0, {"/bin/x y", {"--seed", "a b"}}) ==
        std::vector<std::string>{"mpirun", "-np", "4", "/bin/x y", "--seed", "a b"});
  CHECK(mpirun_command(4, 2, {"/bin/x", {}}) ==
        std::vector<std::string>{"mpirun", "-np", "4", "--map-by", "ppr:2:node", "/bin/x"});
}

TEST_CASE("a step of a Slurm job has a block of ranks on each node, which share the job's cores there") {
  Plan plan;
  plan.world_size = 8;
  plan.num_nodes = 2;
  const Program program{"/bin/x", {"--seed", "a b"}};
  const auto command = srun_command(plan, {.job = "7", .nodes = 3, .cpus_per_node = 18}, program);
  CHECK(command == std::vector<std::string>{"srun", "--mpi=pmix", "--nodes=2", "--ntasks=8",
                                            "--ntasks-per-node=4", "--distribution=block",
                                            "--kill-on-bad-exit=1", "--overlap", "--disable-status",
                                            "--cpus-per-task=4", "/bin/x", "--seed", "a b"});
  const auto cores = [&](int of_node) { return srun_command(plan, {.cpus_per_node = of_node}, program)[9]; };
  CHECK(cores(4) == "--cpus-per-task=1");
  CHECK(cores(3) == "--overcommit");
  CHECK(cores(0) == "/bin/x");  // not known
}

/// What `prepare_environment` makes of this variable, beginning with an environment that has `given`
/// ("NAME=value", or nothing); "-" for none.
std::string prepared(const char* variable, const std::string& given, int ranks = 1) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    for (const char* name : {"OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy",
                             "OMPI_MCA_rmaps_base_mapping_policy", "PRTE_MCA_rmaps_default_mapping_policy"})
      unsetenv(name);
    if (const std::size_t equals = given.find('='); equals != std::string::npos)
      setenv(given.substr(0, equals).c_str(), given.substr(equals + 1).c_str(), 1);
    prepare_environment(ranks);
    const char* value = std::getenv(variable);
    const std::string text = value == nullptr ? "-" : value;
    _exit(write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  waitpid(child, nullptr, 0);
  std::array<char, 100> text{};
  const ssize_t size = read(ends[0], text.data(), text.size());
  close(ends[0]);
  close(ends[1]);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

TEST_CASE(
    "ranks that the program starts are not bound to a core each, unless the user says how they are to be "
    "bound") {
  const char *open_mpi_4 = "OMPI_MCA_hwloc_base_binding_policy",
             *open_mpi_5 = "PRTE_MCA_hwloc_default_binding_policy";
  CHECK(prepared(open_mpi_4, "") == "none");
  CHECK(prepared(open_mpi_5, "") == "none");
  CHECK(prepared(open_mpi_4, "OMPI_MCA_hwloc_base_binding_policy=core") == "core");
  CHECK(prepared(open_mpi_5, "PRTE_MCA_hwloc_default_binding_policy=numa") == "numa");
  CHECK(prepared(open_mpi_4, "OMPI_MCA_rmaps_base_mapping_policy=slot:PE=4") == "-");
  CHECK(prepared(open_mpi_5, "PRTE_MCA_rmaps_default_mapping_policy=slot:PE=4") == "-");
  CHECK(prepared(open_mpi_5, "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe") == "none");
}

TEST_CASE("more ranks than cores start under Open MPI 5, in the mapping that the user asked for") {
  const char* const mapping = "PRTE_MCA_rmaps_default_mapping_policy";
  constexpr int kMoreThanCores = 100'000;
  CHECK(prepared(mapping, "") == "-");
  CHECK(prepared(mapping, "", kMoreThanCores) == ":oversubscribe");
  CHECK(prepared(mapping, std::string(mapping) + "=slot:PE=2", kMoreThanCores) == "slot:PE=2:oversubscribe");
  CHECK(prepared(mapping, std::string(mapping) + "=:oversubscribe", kMoreThanCores) == ":oversubscribe");
}

TEST_CASE("more ranks than cores yield to each other, however they are started") {
  const auto yields = [](int ranks) {
    const pid_t child = fork();
    if (child == 0) {
      unsetenv("OMPI_MCA_mpi_yield_when_idle");
      prepare_environment(ranks);
      _exit(std::getenv("OMPI_MCA_mpi_yield_when_idle") != nullptr ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  };
  CHECK_FALSE(yields(1));
  CHECK(yields(100000));
}

}  // namespace
}  // namespace cxtrain::test
