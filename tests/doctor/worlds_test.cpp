#include <vector>

#include "doctor/bad_worlds.h"
#include "doctor/worlds_support.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

using doctor::Severity;

constexpr Severity kWarning = Severity::warning;

void check_bad(const std::vector<BadWorld>& worlds) {
  for (const BadWorld& world : worlds) {
    INFO(world.base << ": " << world.name);
    const doctor::Diagnosis diagnosis = doctor::diagnose(changed_world(world.base, world.changes));
    INFO(doctor::to_text(diagnosis));
    const doctor::Finding finding = finding_of(diagnosis, world.check);
    CHECK(word_of(finding.severity) == word_of(world.severity));
    CHECK_FALSE(finding.found.empty());
    std::set<std::string> expected = world.others;
    if (world.severity >= kWarning) expected.insert(world.check);
    CHECK(checks_from(diagnosis, kWarning) == expected);
    if (world.others.empty()) {
      const int worst = world.severity == Severity::error ? 2 : world.severity == kWarning ? 1 : 0;
      CHECK(diagnosis.exit_code == worst);
    }
  }
}

struct GoodWorld {
  const char *name, *base, *changes = "{}";
};

const std::vector<GoodWorld>& good_worlds() {
  static const std::vector<GoodWorld> worlds{
      {"a laptop", "laptop"},
      {"ranks on a node's cores", "cpu_node"},
      {"spawned ranks that share all cores", "spawned"},
      {"CPU ranks on four nodes", "ethernet"},
      {"a rank that read its data slowly", "ethernet",
       R"({"/ranks/*/data_fingerprint": "9 samples; Float [2]; aa bb cc", "/ranks/1/data_fingerprint": "9 samples; Float [2]; aa"})"},
      {"a node with eight GPUs", "gpu_node"},
      {"two nodes under srun", "two_nodes"},
      {"sixteen nodes", "cluster"},
      {"two containers of a machine", "containers"},
      {"emulated nodes", "emulated"},
      {"instances of a divided GPU", "mig"},
      {"one process with two GPUs", "workstation"},
      {"as many threads as cores", "cpu_node", R"({"/ranks/*/environment/OMP_NUM_THREADS": "4"})"},
      {"one thread for each GPU rank", "gpu_node", R"({"/ranks/*/environment/OMP_NUM_THREADS": "1"})"},
      {"interfaces by exclusion", "two_nodes",
       R"({"/ranks/*/environment/NCCL_SOCKET_IFNAME": "^lo,docker0"})"},
      {"an interface by its exact name", "two_nodes",
       R"({"/ranks/*/environment/NCCL_SOCKET_IFNAME": "=ib0"})"},
      {"adapters that differ by node", "cluster", R"({"/ranks/0/environment/NCCL_IB_HCA": "mlx5_2"})"},
      {"ranks bound to sockets", "cpu_node",
       R"({"/ranks/0/cores": "0-7", "/ranks/1/cores": "0-7", "/ranks/2/cores": "8-15", "/ranks/3/cores": "8-15"})"},
      {"UCX instead of Open MPI's transports", "ethernet",
       R"({"/ranks/*/environment/OMPI_MCA_btl": "^vader,tcp", "/ranks/*/environment/OMPI_MCA_pml": "ucx"})"},
      {"shared memory by Open MPI 5's name", "cpu_node",
       R"({"/ranks/*/mpi_version": "Open MPI v5.0.7", "/ranks/*/environment/OMPI_MCA_btl": "self,sm"})"},
      {"a setting by its names in Open MPI 4 and 5", "cpu_node",
       R"({"/ranks/*/environment/OMPI_MCA_hwloc_base_binding_policy": "none", "/ranks/*/environment/PRTE_MCA_hwloc_default_binding_policy": "none"})"},
      {"TCP on a network by its address", "ethernet",
       R"({"/ranks/*/environment/OMPI_MCA_btl_tcp_if_include": "10.0.0.0/24"})"},
      {"an older CUDA than the driver's", "two_nodes", R"({"/job/cuda_runtime": "12.8"})"},
      {"an exclusive GPU of its own", "gpu_node", R"({"/nodes/0/gpus/*/compute_mode": "exclusive_process"})"},
      {"no core dumps, and core dumps on a large disk", "cpu_node", R"({"/ranks/*/core_bytes": -1})"},
      {"clocks that could not be compared better", "ethernet",
       R"({"/nodes/1/clock_offset": 1.5, "/nodes/1/clock_error": 2})"},
      {"GPUs given to ranks one by one", "two_nodes",
       R"({"/ranks/0/environment/CUDA_VISIBLE_DEVICES": "0", "/ranks/1/environment/CUDA_VISIBLE_DEVICES": "1"})"},
      {"facts that nobody knows", "cpu_node",
       R"({"/nodes/0/load": null, "/nodes/0/output": null, "/ranks/*/environment": null, "/job/reduce_seconds": null})"},
  };
  return worlds;
}

TEST_CASE("doctor finds what is wrong with cores and threads") { check_bad(bad_cores_and_threads()); }
TEST_CASE("doctor finds what is wrong with GPUs") { check_bad(bad_gpus()); }
TEST_CASE("doctor finds what is wrong with NCCL's settings") { check_bad(bad_nccl()); }
TEST_CASE("doctor finds what is wrong with MPI and the launch") { check_bad(bad_mpi_and_launch()); }
TEST_CASE("doctor finds what is wrong with machines") { check_bad(bad_machines()); }
TEST_CASE("doctor finds what is wrong with folders and files") { check_bad(bad_files()); }

TEST_CASE("doctor finds nothing wrong in good worlds") {
  for (const GoodWorld& world : good_worlds()) {
    INFO(world.base << ": " << world.name);
    const doctor::Diagnosis diagnosis = doctor::diagnose(changed_world(world.base, world.changes));
    INFO(doctor::to_text(diagnosis));
    CHECK(checks_from(diagnosis, kWarning).empty());
    CHECK(diagnosis.exit_code == 0);
  }
}

TEST_CASE("there are enough worlds, and every check has a bad one") {
  std::set<std::string> checked;
  std::size_t count = 0;
  for (auto* worlds :
       {bad_cores_and_threads, bad_gpus, bad_nccl, bad_mpi_and_launch, bad_machines, bad_files}) {
    for (const BadWorld& world : worlds()) checked.insert(world.check);
    count += worlds().size();
  }
  CHECK(count >= 40);
  CHECK(good_worlds().size() >= 15);
  CHECK(doctor::all_checks().size() >= 34);
  for (const doctor::Check& check : doctor::all_checks()) {
    INFO(check.id);
    CHECK(checked.contains(std::string(check.id)));
  }
}

}  // namespace
}  // namespace cxtrain::test
