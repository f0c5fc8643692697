#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.h"
#include "support/nodes.h"
#include "support/run_files.h"
#include "support/skip.h"
#include "support/slurm.h"

/// The examples of batch scripts, submitted to a real Slurm with two nodes.
namespace cxtrain::test {
namespace {

const std::string kScriptTraining = " --accelerator cpu --data.batch_size 8 --max_epochs 1 ";

TEST_CASE("the scripts for GPUs and for nodes that may be taken away train", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  struct Row {
    std::string script;
    int ranks;
  };
  for (const Row& row : {Row{"gpu.sbatch", 4}, Row{"preemptible.sbatch", 2}}) {
    const std::string job = SlurmCluster::submit(dir.path(), row.script + kScriptTraining);
    const std::string state = SlurmCluster::wait(job);
    CAPTURE(row.script, output_of(dir, job));
    REQUIRE(state == "COMPLETED");
    CHECK(end_of(dir, job)["status"] == "done");
    CHECK(end_of(dir, job)["world_size"] == row.ranks);
    if (row.script == "gpu.sbatch") CHECK_THAT(output_of(dir, job), contains(" checks: "));
  }
}

/// LibTorch's folder, as the build has found it.
std::string libtorch_of(const std::string& build) {
  std::ifstream cache(build + "/CMakeCache.txt");
  const std::string name = "CXTRAIN_LIBTORCH:PATH=";
  for (std::string line; std::getline(cache, line);) {
    if (line.starts_with(name)) return line.substr(name.size());
  }
  return {};
}

/// Programs of these names that stand first in PATH: srun runs a command here, sbcast copies.
std::string stand_ins_for_slurm(const TempDir& dir) {
  std::filesystem::create_directory(dir.file("bin"));
  dir.write("bin/srun", "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\necho \"$*\" >> " +
                            dir.file("steps") + "\nexec \"$@\"\n");
  dir.write("bin/sbcast", "#!/bin/bash\nexec cp \"$2\" \"$3\"\n");
  for (const char* name : {"bin/srun", "bin/sbcast"})
    std::filesystem::permissions(dir.file(name), std::filesystem::perms::owner_all);
  return "PATH=" + dir.file("bin") + ":$PATH SLURM_JOB_ID=4712 SLURM_JOB_NUM_NODES=1 ";
}

TEST_CASE("a bundle is unpacked in a folder that nobody else can have made, and that nobody else can enter") {
  const TempDir dir;
  std::filesystem::create_directories(dir.file("bundle"));
  std::filesystem::create_directories(dir.file("node"));
  dir.write("bundle/run.sh", "#!/bin/bash\nstat -c '%a %n' \"$(dirname \"$0\")\"\n");
  std::filesystem::permissions(dir.file("bundle/run.sh"), std::filesystem::perms::owner_all);
  const std::string job = "cd " + dir.path() + " && tar -czf b.tar.gz bundle && " + stand_ins_for_slurm(dir) +
                          "CXTRAIN_BUNDLE=b.tar.gz CXTRAIN_NODE_DIR=" + dir.file("node") +
                          " bash " CXTRAIN_SOURCE_DIR "/slurm/bundle.sbatch";
  const ProgramResult first = run_command(job), second = run_command(job);
  for (const ProgramResult& run : {first, second}) {
    CAPTURE(run.output);
    CHECK(run.status == 0);
    CHECK(run.output.starts_with("700 " + dir.file("node/cxtrain-4712-")));
  }
  CHECK(first.output != second.output);
  CHECK(std::filesystem::is_empty(dir.file("node")));
  // Where the folder cannot be made, nothing is started.
  dir.write("bin/mkdir", "#!/bin/bash\nexit 1\n");
  std::filesystem::permissions(dir.file("bin/mkdir"), std::filesystem::perms::owner_all);
  std::filesystem::remove(dir.file("steps"));
  CHECK(run_command(job).status != 0);
  CHECK(slurp(dir.file("steps")).find("run.sh") == std::string::npos);
}

TEST_CASE("a bundle finds no LibTorch in the current folder") {
  const TempDir dir;
  std::filesystem::create_directories(dir.file("torch/lib"));
  dir.write("torch/lib/libtorch_cpu.so", "");
  dir.write("torch/__init__.py", "");
  const ProgramResult run = run_command("cd " + dir.path() +
                                        " && unset CXTRAIN_LIBTORCH && . " CXTRAIN_SOURCE_DIR
                                        "/scripts/bundle/env.sh; echo \"found: $CXTRAIN_LIBTORCH\"");
  CAPTURE(run.output);
  CHECK(run.output.find(dir.file("torch")) == std::string::npos);
  CHECK(run.output.find("found: " + dir.path()) == std::string::npos);
}

TEST_CASE("a program that is installed nowhere comes to the nodes by sbcast, and goes when the job ends",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  for (const char* program : {"gpu_tests", "gpu_bench", "bench_floor_loop", "bench_trainer_loop"}) {
    if (!std::filesystem::exists(std::string(CXTRAIN_BIN_DIR "/") + program))
      return skip(std::string("a bundle has ") + program + ", which is not built here");
  }
  const TempDir dir;
  const std::string build = std::string(CXTRAIN_BIN_DIR) + "/..";
  const ProgramResult packed = run_command(
      CXTRAIN_SOURCE_DIR "/scripts/bundle.sh --no-build --build " + build + " --output " + dir.path(), 300);
  CAPTURE(packed.output);
  REQUIRE(packed.status == 0);
  const std::string archive = packed.output.substr(0, packed.output.find(','));
  const std::string files = run_command("tar -tzf " + archive).output;
  for (const char* licence : {"THIRD_PARTY.md", "openmpi-bin", "libssl3"})
    CHECK_THAT(files, contains(std::string("/share/licences/") + licence));
  const std::string job =
      SlurmCluster::submit(dir.path(), "bundle.sbatch" + kScriptTraining,
                           "--export=ALL,CXTRAIN_NODE_DIR=/dev/shm,CXTRAIN_LIBTORCH=" + libtorch_of(build) +
                               ",CXTRAIN_BUNDLE=" + archive + " ");
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  CHECK(end_of(dir, job)["world_size"] == 4);
  for (const char* node : {"n1", "n2"})
    CHECK_THAT(run_command(Nodes::on(node, "ls /dev/shm")).output, !contains("cxtrain-" + job));

  const std::string refused = SlurmCluster::submit(dir.path(), "bundle.sbatch" + kScriptTraining);
  CHECK(SlurmCluster::wait(refused) == "FAILED");
  CHECK_THAT(output_of(dir, refused), contains("scripts/bundle.sh"));
}

/// Slurm takes a job that ends by itself in a preemption's grace time for done, and does not requeue it.
TEST_CASE("a job that has to make way before its ranks can save starts again", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  // In the place of ranks that load their libraries, for the first time, and then of ranks that train.
  dir.write("starts.sh",
            "#!/bin/bash\n[ -z \"$SLURM_RESTART_COUNT\" ] || exit 0\ntouch began\nexec sleep 60\n");
  REQUIRE(run_command("chmod +x " + dir.file("starts.sh")).status == 0);
  const std::string job =
      SlurmCluster::submit(dir.path(), "train.sbatch", "--export=ALL,CXTRAIN=" + dir.file("starts.sh") + " ");
  REQUIRE(becomes_true([&] { return std::filesystem::exists(dir.file("began")); }));
  REQUIRE(
      SlurmCluster::run(dir.path(), "sbatch --partition=urgent --nodes=2 --exclusive --wrap true").status ==
      0);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(SlurmCluster::about(job), output_of(dir, job));
  CHECK(state == "COMPLETED");
  CHECK(SlurmCluster::restarts(job) >= 1);
}

}  // namespace
}  // namespace cxtrain::test
