#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cxtrain/device/resources.h"
#include "cxtrain/doctor/probe.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

TEST_CASE("a file's fingerprint is that of its content") {
  const TempDir dir;
  const std::string a = dir.write("a", "content"), b = dir.write("b", "content"),
                    c = dir.write("c", "contents");
  CHECK(doctor::file_fingerprint(a) == doctor::file_fingerprint(b));
  CHECK(doctor::file_fingerprint(a) != doctor::file_fingerprint(c));
  CHECK(doctor::file_fingerprint(a).size() == 64);
  CHECK(doctor::file_fingerprint(dir.path()).empty());
  CHECK(doctor::file_fingerprint(dir.file("none")).empty());
}

TEST_CASE("a large file's fingerprint is that of its size and parts") {
  const TempDir dir;
  std::string content(std::size_t{9} << 20, 'x');
  const std::string whole = doctor::file_fingerprint(dir.write("a", content));
  content.back() = 'y';
  CHECK(doctor::file_fingerprint(dir.write("b", content)) != whole);
  content.back() = 'x';
  content.front() = 'y';
  CHECK(doctor::file_fingerprint(dir.write("b", content)) != whole);
  content.front() = 'x';
  CHECK(doctor::file_fingerprint(dir.write("b", content)) == whole);
  CHECK(doctor::file_fingerprint(dir.write("b", content + "x")) != whole);
}

TEST_CASE("the least limit of all control groups counts") {
  const TempDir dir;
  std::filesystem::create_directories(dir.file("slurm/job_7/step_0"));
  std::filesystem::create_directories(dir.file("memory/docker/ab"));
  dir.write("memory.max", "max\n");
  dir.write("slurm/job_7/memory.max", "1000\n");
  dir.write("slurm/job_7/step_0/memory.max", "max\n");
  dir.write("memory/docker/ab/memory.limit_in_bytes", "500\n");
  dir.write("memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  const auto limit = [&](const char* groups) {
    return least_limit(limited_memory_groups(groups, dir.path()));
  };
  CHECK(limit("0::/slurm/job_7/step_0\n") == 1000);
  CHECK_FALSE(limit("0::/slurm\n").has_value());
  CHECK(limit("5:cpu:/x\n4:memory:/docker/ab\n") == 500);
  CHECK_FALSE(limit("4:memory:/docker\n").has_value());
  CHECK(limit("4:memory:/docker/ab\n0::/slurm/job_7\n") == 500);
  for (const char* odd : {"", "0", "0:", "0::", "0::x/y", "\n\n"}) CHECK_FALSE(limit(odd).has_value());
}

TEST_CASE("the output folder is looked at where it will be made, and left as it was") {
  const TempDir dir;
  const doctor::FolderFacts facts = doctor::probe_output(dir.file("a/b/c"));
  CHECK(facts.path == dir.file("a/b/c"));
  CHECK(facts.exists == false);
  CHECK(facts.writable == true);
  CHECK(*facts.free_bytes > 0);
  CHECK(*facts.write_bytes_per_second > 0);
  CHECK_FALSE(facts.filesystem.empty());
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(doctor::probe_output(dir.path()).exists == true);
}

TEST_CASE("an output folder that is a file cannot be written") {
  const TempDir dir;
  CHECK(doctor::probe_output(dir.write("file", "")).writable == false);
  CHECK(doctor::nearest_folder(dir.file("file")) == dir.path());
  CHECK(doctor::nearest_folder("/none/at/all") == "/");
}

TEST_CASE("data that is missing is told from data that is there") {
  const TempDir dir;
  CHECK(doctor::probe_data(dir.path()).readable == true);
  const doctor::FolderFacts none = doctor::probe_data(dir.file("none"));
  CHECK(none.exists == false);
  CHECK(none.readable == false);
  CHECK(none.filesystem.empty());
}

TEST_CASE("file systems have names") {
  CHECK(doctor::filesystem_name("/proc").starts_with("0x"));
  CHECK(doctor::filesystem_name("/none").empty());
}

TEST_CASE("variables of a launcher's own stay out of a recording") {
  CHECK(doctor::is_relevant("NCCL_DEBUG"));
  CHECK(doctor::is_relevant("OMPI_MCA_btl"));
  CHECK(doctor::is_relevant("SLURM_CPU_BIND_TYPE"));
  CHECK_FALSE(doctor::is_relevant("OMPI_MCA_orte_precondition_transports"));
  CHECK(doctor::is_relevant("PRTE_MCA_rmaps_default_mapping_policy"));
  CHECK_FALSE(doctor::is_relevant("OMPI_MCA_PREFIXES"));
  CHECK_FALSE(doctor::is_relevant("HOME"));
  CHECK_FALSE(doctor::is_relevant("WANDB_API_KEY"));
  const EnvironmentVariable variable("NCCL_DOCTOR_TEST", "a=b");
  CHECK(doctor::relevant_environment().at("NCCL_DOCTOR_TEST") == "a=b");
}

TEST_CASE("this machine tells of itself") {
  doctor::NodeFacts node;
  doctor::probe_machine(node);
  CHECK(node.boot_id.size() == 36);
  CHECK(*node.cores >= 1);
  CHECK(*node.memory_total > *node.memory_available);
  CHECK(node.load.has_value());
  doctor::probe_network(node);
  CHECK(node.interfaces.has_value());
  doctor::RankFacts rank;
  doctor::probe_limits(rank);
  CHECK(rank.open_files.has_value());
  doctor::probe_program(rank);
  CHECK(rank.program_hash == doctor::file_fingerprint("/proc/self/exe"));
}

}  // namespace
}  // namespace cxtrain::test
