#include <dirent.h>
#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

std::optional<std::int64_t> limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return std::nullopt;
  constexpr auto kMaxLimit = static_cast<rlim_t>(INT64_MAX);
  return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > kMaxLimit
             ? std::int64_t{-1}
             : static_cast<std::int64_t>(limit.rlim_cur);
}

std::optional<std::int64_t> lower_limit(std::optional<std::int64_t> a, std::optional<std::int64_t> b) {
  if (!a || *a < 0) return b ? b : a;
  if (!b || *b < 0) return a;
  return std::min(*a, *b);
}

template <std::size_t N>
bool begins_with_any(std::string_view text, const std::array<const char*, N>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const char* prefix) { return text.starts_with(prefix); });
}

}  // namespace

bool is_relevant(const std::string& variable) {
  // What mpirun sets for its ranks, in Open MPI 4.1 and 5.0.
  constexpr std::array kOwn{"OMPI_MCA_orte",
                            "OMPI_MCA_ess",
                            "OMPI_MCA_pmix",
                            "OMPI_MCA_shmem_RUNTIME_QUERY_hint",
                            "OMPI_MCA_mpi_oversubscribe",
                            "OMPI_MCA_initial_wdir",
                            "OMPI_MCA_PREFIXES",
                            "OMPI_MCA_mca_base_component_path",
                            "OMPI_MCA_num_procs",
                            "OMPI_MCA_cpu_type"};
  constexpr std::array kSubjects{"NCCL_",
                                 "OMPI_MCA_",
                                 "PRTE_MCA_",
                                 "OMP_",
                                 "MKL_",
                                 "KMP_",
                                 "CUDA_",
                                 "UCX_",
                                 "FI_",
                                 "TORCH_",
                                 "SLURM_CPU_BIND",
                                 "SLURM_NTASKS",
                                 "SLURM_JOB_NUM_NODES",
                                 "SLURM_JOB_CPUS_PER_NODE",
                                 "SLURM_CPUS_PER_TASK",
                                 "SLURM_GPUS",
                                 "SLURM_MPI_TYPE",
                                 "SLURM_PMIX_FENCE",
                                 "SLURM_PMIX_DIRECT_CONN",
                                 "LD_LIBRARY_PATH",
                                 "LD_PRELOAD",
                                 "CXTRAIN_PLUGIN_PATH"};
  return begins_with_any(variable, kSubjects) && !begins_with_any(variable, kOwn);
}

using Environment = std::map<std::string, std::string>;

/// "NAME=VALUE".
void add_variable(std::string_view text, Environment& to) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return;
  const std::string name(text.substr(0, equals));
  if (is_relevant(name)) to.emplace(name, text.substr(equals + 1));
}

/// Open MPI 5's mpirun, and its daemons, keep their own settings (PRTE_MCA_...) from the ranks that they
/// start. The rank's parent is one of them.
void add_settings_of_launcher(Environment& to) {
  std::ifstream file("/proc/" + std::to_string(getppid()) + "/environ");
  for (std::string text; std::getline(file, text, '\0');) {
    if (text.starts_with("PRTE_MCA_")) add_variable(text, to);
  }
}

Environment relevant_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) add_variable(*entry, found);
  add_settings_of_launcher(found);
  return found;
}

void probe_limits(RankFacts& facts) {
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.core_bytes = limit_of(RLIMIT_CORE);
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  facts.stack_bytes = limit_of(RLIMIT_STACK);
  facts.data_bytes = lower_limit(limit_of(RLIMIT_DATA), limit_of(RLIMIT_AS));
}

void probe_mpi(RankFacts& facts) {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) == MPI_SUCCESS) {
    const std::string version(text.data());
    facts.mpi_version = version.substr(0, version.find_first_of(",\n"));  // without where it was built
  }
  facts.pmix = std::getenv("PMIX_RANK") != nullptr;
  int initialized = 0, level = 0;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || initialized == 0) return;
  if (MPI_Query_thread(&level) != MPI_SUCCESS) return;
  if (level == MPI_THREAD_SINGLE) facts.mpi_threads = "single";
  if (level == MPI_THREAD_FUNNELED) facts.mpi_threads = "funneled";
  if (level == MPI_THREAD_SERIALIZED) facts.mpi_threads = "serialized";
  if (level == MPI_THREAD_MULTIPLE) facts.mpi_threads = "multiple";
}

}  // namespace cxtrain::doctor
