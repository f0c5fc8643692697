#include <set>
#include <string>

#include "cxtrain/doctor/check_support.h"
#include "doctor/worlds_support.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

using doctor::Severity;

doctor::Finding found_by(const std::string& check, const std::string& base, const std::string& changes) {
  return finding_of(doctor::diagnose(changed_world(base, changes)), check);
}

TEST_CASE("every check is told about in full") {
  std::set<std::string_view> ids;
  for (const doctor::Check& check : doctor::all_checks()) {
    INFO(check.id);
    CHECK(ids.insert(check.id).second);
    CHECK(check.id.find('.') != std::string_view::npos);
    CHECK_FALSE(check.title.empty());
    CHECK(check.why.ends_with("."));
  }
}

TEST_CASE("a recording without facts gives neither problems nor crashes") {
  for (const char* text :
       {"{}", R"({"nodes": [{}, {"node": 1}], "ranks": [{}, {"rank": 1}, {"rank": 2, "node": 1}]})",
        R"({"job": {"accelerator": "gpu", "nodes": 2, "world_size": 4, "launcher": "srun",
                               "allocation": {}}, "ranks": [{"node": 7}]})"}) {
    INFO(text);
    const doctor::Diagnosis diagnosis = doctor::diagnose(doctor::parse_recording(text, "text"));
    CHECK(diagnosis.count(Severity::error) == 0);
    CHECK(diagnosis.count(Severity::unknown) > 10);
  }
}

/// Takes every single fact away, one at a time: a check may then not know, but finds nothing wrong.
void without_each(const WorldJson& world, const std::string& path, const WorldJson& part) {
  if (part.is_array()) {
    if (!part.empty() && part[0].is_structured()) without_each(world, path + "/0", part[0]);
    return;
  }
  for (const auto& [name, value] : part.items()) {
    const std::string place = path + "/" + name;
    if (value.is_structured()) without_each(world, place, value);
    if (name == "launcher" || name == "nodes" || name == "ranks" || name == "node" || name == "rank")
      continue;
    WorldJson changed = world;
    set_at(changed, place, nullptr);
    INFO(place);
    const doctor::Diagnosis diagnosis = doctor::diagnose(doctor::parse_recording(changed.dump(), "changed"));
    INFO(to_text(diagnosis));
    std::set<std::string> wrong = checks_from(diagnosis, Severity::warning);
    // A list without its first element is another world, not less of one.
    for (const char* about_lists :
         {"gpu.missing", "gpu.idle", "nccl.settings", "same.libraries", "gpu.visible"})
      wrong.erase(about_lists);
    if (name == "SLURM_PMIX_FENCE") wrong.erase("launch.barrier");  // without it Slurm has another
    CHECK(wrong.empty());
  }
}

TEST_CASE("no single missing fact is taken for a problem") {
  const WorldJson world = base_world("two_nodes");
  without_each(world, "", world);
}

TEST_CASE("findings name ranks, hosts and values") {
  CHECK(
      found_by(
          "gpu.shared", "gpu_node",
          R"({"/ranks/1/planned_gpus/0": "GPU-s", "/ranks/2/planned_gpus/0": "GPU-s", "/ranks/5/planned_gpus/0": "GPU-s"})")
          .found == "GPU GPU-s on gpu001 (ranks 1-2,5)");
  CHECK(found_by("host.clocks", "cluster", R"({"/nodes/9/clock_offset": -5.2})").found ==
        "-5.2 s off the first node's clock (gpu010)");
  CHECK(found_by("limits.locked", "cluster", R"({"/ranks/*/locked_bytes": 8388608})").found ==
        "at most 8 MB of locked memory (ranks 0-127)");
  CHECK(found_by("host.load", "cluster", R"({"/nodes/*/load": 100})").found ==
        "a load of 100.0 on 128 cores (gpu001, gpu002, gpu003, gpu004 and 12 more)");
  CHECK(found_by("mpi.bandwidth", "ethernet", R"({"/job/reduce_seconds": 0.1})").found ==
        "an all-reduce of 1 MB runs at 10 MB/s over links of 10 Gbit/s");
  CHECK(found_by("same.program", "ethernet", R"({"/ranks/6/program_hash": "0123456789abcdef"})").found ==
        "programs 0123456789ab on rank 6; " +
            base_world("ethernet")["ranks"][0]["program_hash"].get<std::string>().substr(0, 12) +
            " on ranks 0-5,7");
}

TEST_CASE("thresholds are sharp") {
  struct Case {
    const char *check, *base, *good, *bad;
  };
  const Case cases[] = {
      {"host.clocks", "ethernet", R"({"/nodes/2/clock_offset": 1})", R"({"/nodes/2/clock_offset": 1.001})"},
      {"output.free", "cpu_node", R"({"/nodes/0/output/free_bytes": 10000000000})",
       R"({"/nodes/0/output/free_bytes": 9999999999})"},
      {"output.slow", "cpu_node", R"({"/nodes/0/output/write_bytes_per_second": 20e6})",
       R"({"/nodes/0/output/write_bytes_per_second": 19.9e6})"},
      {"limits.files", "cpu_node", R"({"/ranks/3/open_files": 4096})", R"({"/ranks/3/open_files": 4095})"},
      {"limits.files", "laptop", R"({"/ranks/0/open_files": 512})", R"({"/ranks/0/open_files": 511})"},
      {"cores.few", "cpu_node", R"({"/ranks/0/cores": "0-2"})", R"({"/ranks/0/cores": "0-1"})"},
      {"threads.many", "cpu_node", R"({"/ranks/0/environment/OMP_NUM_THREADS": "4"})",
       R"({"/ranks/0/environment/OMP_NUM_THREADS": "5"})"},
      {"memory.available", "cpu_node", R"({"/nodes/0/memory_available": 4294967296})",
       R"({"/nodes/0/memory_available": 4294967292})"},
      {"launch.barrier", "two_nodes", R"({"/ranks/*/environment/SLURM_PMIX_DIRECT_CONN": "off"})",
       R"({"/ranks/*/environment/SLURM_PMIX_DIRECT_CONN": "No"})"},
      {"gpu.busy", "gpu_node", R"({"/nodes/0/gpus/0/memory_used_mib": 1024})",
       R"({"/nodes/0/gpus/0/memory_used_mib": 1025})"},
      {"mpi.oversubscribed", "cpu_node", R"({"/nodes/0/cores": 4})", R"({"/nodes/0/cores": 3})"},
      {"mpi.latency", "cpu_node", R"({"/job/small_reduce_seconds": 0.0005})",
       R"({"/job/small_reduce_seconds": 0.00051})"},
  };
  for (const Case& one : cases) {
    INFO(one.check << " of " << one.base);
    CHECK(found_by(one.check, one.base, one.good).severity == Severity::ok);
    CHECK(found_by(one.check, one.base, one.bad).severity >= Severity::warning);
  }
}

TEST_CASE("the doctor ignores empty settings and network interfaces of containers") {
  CHECK(found_by("nccl.interface", "two_nodes", R"({"/ranks/*/environment/NCCL_SOCKET_IFNAME": ""})")
            .severity == Severity::ok);
  CHECK(found_by("mpi.interface", "ethernet", R"({"/ranks/*/environment/OMPI_MCA_btl_tcp_if_include": ""})")
            .severity == Severity::ok);
  CHECK(found_by("mpi.bandwidth", "ethernet",
                 R"({"/nodes/*/interfaces/0/name": "veth1", "/nodes/*/interfaces/0/mbit_per_second": 10000,
                     "/nodes/*/interfaces/1/mbit_per_second": 1000, "/job/reduce_seconds": 0.035})")
            .severity == Severity::ok);
}

TEST_CASE("errors are told from warnings") {
  CHECK(found_by("host.clocks", "ethernet", R"({"/nodes/2/clock_offset": 60})").severity ==
        Severity::warning);
  CHECK(found_by("host.clocks", "ethernet", R"({"/nodes/2/clock_offset": -61})").severity == Severity::error);
  CHECK(found_by("output.free", "cpu_node", R"({"/nodes/0/output/free_bytes": 1000000000})").severity ==
        Severity::warning);
  CHECK(found_by("output.free", "cpu_node", R"({"/nodes/0/output/free_bytes": 999999999})").severity ==
        Severity::error);
}

TEST_CASE("GPUs reach each other's memory where that is known of all pairs") {
  const auto found = [](const std::string& row) {
    return found_by("gpu.peer_access", "gpu_node", R"({"/nodes/0/peer_access/0": )" + row + "}");
  };
  CHECK(found("[true, true, true, true, true, true, true, true]").severity == Severity::ok);
  CHECK(found("[null, true, true, true, true, true, true, true]").severity == Severity::ok);
  CHECK(found("[true, true, null, true, true, true, true, true]").severity == Severity::unknown);
  const doctor::Finding wrong = found("[true, true, null, true, true, false, true, true]");
  CHECK(wrong.severity == Severity::warning);
  CHECK(wrong.found == "GPUs 0 and 5 do not reach each other's memory (gpu001)");
}

TEST_CASE("ranks, hosts and sizes are written for people") {
  CHECK(doctor::ranks_text({3}) == "rank 3");
  CHECK(doctor::ranks_text({8, 0, 1, 2, 3, 3}) == "ranks 0-3,8");
  CHECK(doctor::hosts_text({"a", "b", "a"}) == "a, b");
  CHECK(doctor::hosts_text({"a", "b", "c", "d", "e", "f"}) == "a, b, c, d and 2 more");
  CHECK(doctor::bytes_text(1.5e9) == "1.5 GB");
  CHECK(doctor::bytes_text(64e6) == "64 MB");
  CHECK(doctor::bytes_text(2048) == "2 kB");
}

}  // namespace
}  // namespace cxtrain::test
