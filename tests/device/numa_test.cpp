#include "cxtrain/device/core_share.h"

#include <filesystem>

#include "support/catch.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

TEST_CASE("cores belong to nodes of memory, as the system lists them") {
  const TempDir dir;
  for (const auto& [node, cores] :
       {std::pair{"node0", "0-3,8-11\n"}, {"node1", "4-7,12-15\n"}, {"node10", "16\n"}}) {
    std::filesystem::create_directory(dir.file(node));
    dir.write(std::string(node) + "/cpulist", cores);
  }
  std::filesystem::create_directory(dir.file("node_of_another_kind"));
  dir.write("possible", "0-10\n");
  const auto nodes = [&](std::vector<int> cores) { return numa_nodes_of(cores, dir.path()); };
  CHECK(nodes({0, 8}) == std::vector{0});
  CHECK(nodes({13}) == std::vector{1});
  CHECK(nodes({16, 3, 4}) == std::vector{0, 1, 10});
  CHECK(nodes({99}).empty());
  CHECK(numa_nodes_of(std::vector{0}, dir.file("missing")).empty());
}

}  // namespace
}  // namespace cxtrain::test
