#include "cxtrain/device/resources.h"

#include <filesystem>

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
  dir.write("slurm/job_7/memory.stat", "anon 300\nfile 400\ninactive_file 150\nactive_file 100\n");
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

TEST_CASE("statistics that are older than the number of used bytes give no negative number", "[device]") {
  const TempDir dir;
  dir.write("memory.max", "1000\n");
  dir.write("memory.current", "100\n");
  dir.write("memory.stat", "inactive_file 90\nactive_file 20\nslab_reclaimable 5\n");
  const std::vector<MemoryGroup> groups = limited_memory_groups("0::/\n", dir.path());
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].used == 0);
}

TEST_CASE("memory that a process can have is within the machine and each of its control groups", "[device]") {
  CHECK(available_within(500, {}) == 500);
  const std::vector<MemoryGroup> groups{{.limit = 1000, .used = 700}, {.limit = 5000, .used = 400}};
  CHECK(available_within(8000, groups) == 300);
  CHECK(available_within(200, groups) == 200);
  const std::vector<MemoryGroup> full{{.limit = 1000, .used = 1200}};
  CHECK(available_within(8000, full) == 0);
}

}  // namespace
}  // namespace cxtrain::test
