#include "cxtrain/device/memory_groups.h"

#include <filesystem>

#include "cxtrain/device/resources.h"
#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

TEST_CASE("memory of files that the kernel can drop is not used memory of a control group", "[device]") {
  const TempDir dir;
  std::filesystem::create_directories(dir.file("slurm/job_7"));
  dir.write("slurm/memory.max", "5000\n");
  dir.write("slurm/memory.current", "400\n");
  dir.write("slurm/job_7/memory.max", "1000\n");
  dir.write("slurm/job_7/memory.current", "700\n");
  dir.write("slurm/job_7/memory.stat", "anon 300\nfile 400\ninactive_file 250\n");
  const std::vector<MemoryGroup> groups = limited_memory_groups("0::/slurm/job_7\n", dir.path());
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].limit == 1000);
  CHECK(groups[0].used == 450);
  CHECK(groups[1].limit == 5000);
  CHECK(groups[1].used == 400);

  std::filesystem::create_directories(dir.file("memory/docker"));
  dir.write("memory/docker/memory.limit_in_bytes", "600\n");
  dir.write("memory/docker/memory.usage_in_bytes", "500\n");
  dir.write("memory/docker/memory.stat", "inactive_file 1\ntotal_inactive_file 200\n");
  const std::vector<MemoryGroup> old = limited_memory_groups("4:memory:/docker\n", dir.path());
  REQUIRE(old.size() == 1);
  CHECK(old[0].used == 300);
}

TEST_CASE("memory that can be had is within that of the machine", "[device]") {
  CHECK(available_memory_bytes() > 0);
  CHECK(available_memory_bytes() <= total_memory_bytes());
}

}  // namespace
}  // namespace cxtrain::test
