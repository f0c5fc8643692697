#include "cxtrain/device/hardware.h"

#include "support/catch.h"

namespace cxtrain::test {
namespace {

/// What a rank sees: its host, and GPUs by UUID with the memory in use.
Hardware view(const std::string& host, const std::vector<std::pair<std::string, int>>& gpus,
              const std::string& visible = "") {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = host;
  for (const auto& [uuid, used] : gpus) {
    Gpu& gpu = node.gpus.emplace_back();
    gpu.uuid = uuid;
    gpu.memory_used_mib = used;
  }
  if (!visible.empty()) hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

TEST_CASE("all ranks of a node plan from what its first rank saw") {
  const std::vector<Hardware> seen{view("n1", {{"a", 4}, {"b", 4}}), view("n2", {{"c", 7}})};
  const Hardware second_rank = view("n1", {{"a", 900}, {"b", 4}});
  for (const auto& [node, own] : {std::pair(0, seen[0]), std::pair(0, second_rank), std::pair(1, seen[1])}) {
    const Hardware merged = merge_hardware(seen, node, own);
    REQUIRE(merged.nodes.size() == 2);
    CHECK(merged.nodes[0].gpus[0].memory_used_mib == 4);
    CHECK(merged.nodes[1].hostname == "n2");
    CHECK(merged.nodes[1].gpus[0].uuid == "c");
  }
}

TEST_CASE("a rank that was given a GPU of its own keeps its view") {
  const Hardware first = view("n1", {{"a", 4}});
  CHECK(merge_hardware({first}, 0, first).nodes[0].gpus[0].uuid == "a");
  CHECK(merge_hardware({first}, 0, view("n1", {{"b", 4}})).nodes[0].gpus[0].uuid == "b");

  const Hardware second =
      merge_hardware({view("n1", {{"a", 4}, {"b", 4}}, "0")}, 0, view("n1", {{"a", 9}, {"b", 4}}, "1"));
  CHECK(second.env.at("CUDA_VISIBLE_DEVICES") == "1");
  CHECK(second.nodes[0].gpus[0].memory_used_mib == 9);
}

}  // namespace
}  // namespace cxtrain::test
