#include "cxtrain/doctor/gather.h"
#include "cxtrain/base/each_field.h"
#include "cxtrain/base/json_fields.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/doctor/probe.h"
#include "device/fake_driver.h"
#include "doctor/worlds_support.h"
#include "support/catch.h"
#include "support/environment_variable.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

/// Rank 1 of two; what the other rank says is written down.
class TwoRanks final : public World {
 public:
  TwoRanks(std::string other, bool same_node) : World(facts_of(same_node)), other_(std::move(other)) {}
  void barrier() override {}
  std::int64_t max(std::int64_t value) override { return value; }
  std::uint64_t any(std::uint64_t flags) override { return flags; }
  void begin_any(std::uint64_t) override {}
  std::uint64_t end_any() override { return 0; }
  void sum(std::span<double>) override {}
  std::vector<std::string> all_gather(std::string_view text) override { return {other_, std::string(text)}; }
  std::vector<std::string> gather_root(std::string_view) override { return {}; }
  std::vector<std::string> gather_node(std::string_view text) override {
    return facts().num_nodes == 1 ? all_gather(text) : std::vector{std::string(text)};
  }
  std::string broadcast(std::string, int) override { return other_; }
  void set_timeout(double, std::function<std::string()>) override {}
  void abort(int) noexcept override {}
  Watchdog& watchdog() override { return solo_.watchdog(); }

 private:
  static WorldFacts facts_of(bool same_node) {
    WorldFacts facts;
    facts.rank = 1;
    facts.size = 2;
    facts.node = same_node ? 0 : 1;
    facts.num_nodes = same_node ? 1 : 2;
    facts.local_rank = same_node ? 1 : 0;
    return facts;
  }
  std::string other_;
  SoloWorld solo_;
};

TEST_CASE("a node tells whether it sees what rank 0 has written") {
  const TempDir dir;
  const std::string file = dir.write("marker", "");
  const auto sees = [&](const std::string& path, bool same_node) {
    TwoRanks world(path, same_node);
    return doctor::sees_file_of_root(world, dir.path());
  };
  CHECK(sees(file, false) == true);
  CHECK(sees(dir.file("other"), false) == false);
  CHECK(sees("/none/at/all", false) == false);
  CHECK_FALSE(sees("", false).has_value());   // rank 0 could not write it
  CHECK_FALSE(sees(file, true).has_value());  // no node's first rank
}

/// What a rank says of the memory that it has made.
struct MadeMemory {
  long long pid = 0;
  int descriptor = -1;
  unsigned long long device = 0, inode = 0;

  void fields(auto&& field) { CXTRAIN_EACH(field, pid, descriptor, device, inode); }
};

TEST_CASE("memory is mapped where it is the one that a rank of the node has made") {
  const TempDir dir;
  const FileDescriptor file(open(dir.write("memory", "").c_str(), O_RDWR | O_CLOEXEC));
  struct stat status {};
  REQUIRE(fstat(file.get(), &status) == 0);
  const auto maps = [](const MadeMemory& other, bool same_node) {
    TwoRanks world(to_message(other), same_node);
    return doctor::maps_memory_of_next(world);
  };
  MadeMemory own{getpid(), file.get(), status.st_dev, status.st_ino};
  CHECK(maps(own, true) == true);
  CHECK_FALSE(maps(own, false).has_value());
  ++own.inode;  // another file of that number
  CHECK(maps(own, true) == false);
  CHECK(maps({999999999, 3}, true) == false);  // no such process
}

TEST_CASE("a process alone gathers what there is without MPI") {
  const TempDir dir;
  const EnvironmentVariable debug("NCCL_DEBUG", "INFO"), job("SLURM_JOB_ID", "77");
  doctor::DoctorInputs own;
  own.output_folder = dir.file("runs");
  own.job.data_workers = 3;
  own.job.libtorch_version = "2.11.0";
  own.job.image_formats = {{"PNG"}};
  own.job.resume_from = "last.ckpt";
  own.plan.accelerator = "gpu";
  own.plan.devices = {1};
  RankPlan rank;
  rank.uuids = {"GPU-b"};
  own.plan.ranks = {rank};
  own.hardware.cuda_runtime = 13000;
  Node node;
  node.cuda_version = "13.0";
  node.gpus.resize(2);
  node.gpus[0].uuid = "GPU-a";
  node.gpus[0].mig = Mig::divided;
  node.gpus[1].uuid = "GPU-b";
  node.visible = {{"GPU-b"}};
  own.hardware.nodes = {node};

  SoloWorld world;
  const doctor::Recording facts = doctor::gather(world, own);
  CHECK(facts.job.launcher == "alone");
  CHECK(facts.job.accelerator == "gpu");
  CHECK(facts.job.devices == "1");
  CHECK(facts.job.data_workers == 3);
  CHECK(facts.job.cuda_runtime == "13.0");
  CHECK(facts.job.image_formats == std::vector<std::string>{"PNG"});
  CHECK(facts.job.resume_from == "last.ckpt");
  CHECK(facts.job.allocation->job == "77");
  CHECK_FALSE(facts.job.damaged.has_value());
  CHECK_FALSE(facts.job.reduce_seconds.has_value());
  REQUIRE(facts.ranks.size() == 1);
  CHECK(facts.ranks[0].planned_gpus == std::vector<std::string>{"GPU-b"});
  CHECK(facts.ranks[0].visible_gpus == std::vector<std::string>{"GPU-b"});
  CHECK(facts.ranks[0].environment->at("NCCL_DEBUG") == "INFO");
  CHECK(facts.ranks[0].pid == getpid());
  CHECK(facts.ranks[0].mpi_threads.empty());
  CHECK_FALSE(facts.ranks[0].maps_memory_of_others.has_value());
  REQUIRE(facts.nodes.size() == 1);
  CHECK(facts.nodes[0].gpus->at(0).mig == "divided");
  CHECK(facts.nodes[0].cuda_version == "13.0");
  CHECK(facts.nodes[0].output->path == dir.file("runs"));
  CHECK(facts.nodes[0].output->sees_root == true);
  CHECK_FALSE(facts.nodes[0].data.has_value());
  CHECK_FALSE(facts.nodes[0].clock_offset.has_value());
  CHECK(std::filesystem::is_empty(dir.path()));
}

/// What a rank alone gathers that is to train on GPUs 0 and 1 of this driver.
doctor::Recording gather_with(const std::string& driver) {
  const TempDir dir;
  doctor::DoctorInputs own;
  own.output_folder = dir.path();
  own.nvml = driver.c_str();
  own.plan.accelerator = "gpu";
  Node node;
  node.gpus = read_gpus_from_nvml(driver.c_str());
  RankPlan rank;
  rank.uuids = {node.gpus.at(0).uuid, node.gpus.at(1).uuid};
  own.plan.ranks = {rank};
  own.hardware.nodes = {node};
  SoloWorld world;
  return doctor::gather(world, own);
}

doctor::Severity severity_in(const doctor::Recording& world, const std::string& check) {
  return finding_of(doctor::diagnose(world), check).severity;
}

TEST_CASE("what NVML tells of the GPUs' health is gathered and judged") {
  using Row = std::vector<std::optional<bool>>;
  const EnvironmentVariable errors("FAKE_NVML_ECC_ERRORS", "3"), clocks("FAKE_NVML_CLOCKS", "64"),
      writes("FAKE_NVML_WRITES", "4");
  const doctor::Recording world = gather_with(kFakeDriver);
  const doctor::NodeFacts& node = world.nodes.at(0);
  REQUIRE(node.gpus->size() == 5);
  CHECK(node.gpus->at(0).compute_mode == "default");
  CHECK(node.gpus->at(0).ecc_uncorrected == 3);
  CHECK(node.gpus->at(0).throttled_by == std::vector<std::string>{"hw_thermal_slowdown"});
  CHECK(node.gpus->at(1).compute_mode == "exclusive_process");
  CHECK_FALSE(node.gpus->at(1).ecc_uncorrected.has_value());
  CHECK_FALSE(node.gpus->at(1).throttled_by.has_value());
  CHECK_FALSE(node.driver_version.empty());
  REQUIRE(node.peer_access.has_value());
  REQUIRE(node.peer_access->size() == 5);
  CHECK((node.peer_access->at(0) == Row{true, false, {}, {}, {}}));
  CHECK((node.peer_access->at(1) == Row{true, true, {}, {}, {}}));
  CHECK((node.peer_access->at(4) == Row{{}, {}, {}, {}, true}));
  CHECK(severity_in(world, "gpu.ecc") == doctor::Severity::error);
  CHECK(severity_in(world, "gpu.throttled") == doctor::Severity::warning);
  CHECK(severity_in(world, "gpu.peer_access") == doctor::Severity::warning);
  CHECK(severity_in(world, "gpu.compute_mode") == doctor::Severity::error);  // taken by processes
}

TEST_CASE("a driver that does not tell of the GPUs' health leaves it unknown") {
  const TempDir dir;
  const doctor::Recording world = gather_with(driver_without(
      {"nvmlDeviceGetComputeMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetCurrentClocksEventReasons",
       "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetP2PStatus"},
      dir));
  const doctor::NodeFacts& node = world.nodes.at(0);
  REQUIRE(node.gpus->size() == 5);
  for (const doctor::GpuFacts& gpu : *node.gpus) {
    CHECK(gpu.compute_mode.empty());
    CHECK_FALSE(gpu.ecc_uncorrected.has_value());
    CHECK_FALSE(gpu.throttled_by.has_value());
  }
  CHECK_FALSE(node.peer_access.has_value());
  for (const char* check : {"gpu.ecc", "gpu.throttled", "gpu.peer_access", "gpu.compute_mode"}) {
    INFO(check);
    CHECK(word_of(severity_in(world, check)) == "unknown");
  }
}

TEST_CASE("GPUs that NVML does not know keep what CUDA tells of them") {
  doctor::NodeFacts node;
  node.driver_version = "590.10";
  node.gpus.emplace(1);
  node.gpus->at(0).uuid = "GPU-unknown";
  node.gpus->at(0).compute_mode = "exclusive_process";
  for (const char* library : {kFakeDriver, "libno_such_driver.so.1"}) {
    doctor::probe_gpus(node, library);
    CHECK(node.gpus->at(0).compute_mode == "exclusive_process");
    CHECK_FALSE(node.gpus->at(0).ecc_uncorrected.has_value());
    CHECK_FALSE(node.peer_access.has_value());
    CHECK(node.driver_version == "590.10");
  }
  node.driver_version.clear();
  doctor::probe_gpus(node, kFakeDriver);
  CHECK(node.driver_version == "580.65.06");
}

}  // namespace
}  // namespace cxtrain::test
