#include "cxtrain/config/plan_drawing.h"

#include "config/resolve_support.h"
#include "support/catch.h"

namespace cxtrain::testing {
namespace {

std::size_t drawn_columns(const std::string& drawing) {
  std::size_t most = 0, columns = 0;
  for (const char c : drawing) {
    if ((c & 0xC0) != 0x80) ++columns;
    if (c == '\n') {
      most = std::max(most, columns - 1);
      columns = 0;
    }
  }
  return most;
}

TEST_CASE("nodes of a plan are drawn as boxes of ranks", "[config]") {
  Options options;
  options.trainer.devices = "2";
  Hardware hardware = machine(2);
  hardware.nodes[0].hostname = "n1";
  hardware.nodes[0].cores = 32;
  for (Gpu& gpu : hardware.nodes[0].gpus) gpu.name.clear();
  CHECK(draw_nodes(resolve(options, hardware, {}), hardware, 80) ==
        "  ┌ node 0 · n1 · 32 cores ─┐\n"
        "  │ ┌ rank 0 ┐ ┌ rank 1 ┐   │\n"
        "  │ │ cuda:0 │ │ cuda:1 │   │\n"
        "  │ │ GPU 0  │ │ GPU 1  │   │\n"
        "  │ └────────┘ └────────┘   │\n"
        "  └─────────────────────────┘\n");
}

TEST_CASE("all devices of a rank are drawn in its box", "[config]") {
  Options options;
  options.trainer.strategy = "dp";
  options.trainer.devices = "4";
  const Hardware hardware = machine(4);
  const std::string drawing = draw_nodes(resolve(options, hardware, {}), hardware, 80);
  CHECK_THAT(drawing, cxtrain::test::contains("│ cuda:0-3 │"));
  CHECK_THAT(drawing, cxtrain::test::contains("│ GPU 0-3  │"));
}

TEST_CASE("ranks on the cores of a machine are drawn with their share of them", "[config]") {
  Options options;
  options.trainer.devices = "2";
  Hardware hardware = machine(0);
  hardware.nodes[0].cores = 8;
  const std::string drawing = draw_nodes(resolve(options, hardware, {}), hardware, 80);
  CHECK_THAT(drawing, cxtrain::test::contains("│ cpu     │"));
  CHECK_THAT(drawing, cxtrain::test::contains("│ 4 cores │"));
}

TEST_CASE("a drawing stays short for many nodes and ranks, and narrow", "[config]") {
  const Hardware hardware = machine(8);
  const std::string thousand =
      draw_nodes(resolve({}, hardware, under_mpirun(std::vector<int>(1000, 8))), hardware, 80);
  CHECK_THAT(thousand, cxtrain::test::contains("nodes 0-999"));
  CHECK_THAT(thousand, cxtrain::test::contains("each of these nodes alike, up to rank 7999"));
  CHECK(std::count(thousand.begin(), thousand.end(), '\n') < 14);
  std::vector<int> uneven;
  for (int i = 0; i < 100; ++i) uneven.push_back(7 + i % 2);
  const std::string mixed = draw_nodes(resolve({}, hardware, under_mpirun(uneven)), hardware, 80);
  CHECK_THAT(mixed, cxtrain::test::contains("and nodes 4-99, ranks up to 749"));
  CHECK(std::count(mixed.begin(), mixed.end(), '\n') < 50);
  const Hardware cpus = machine(0);
  const std::string crowded = draw_nodes(resolve({}, cpus, under_mpirun({300})), cpus, 80);
  CHECK_THAT(crowded, cxtrain::test::contains("and 236 more ranks"));
  for (const std::string* drawing : {&thousand, &mixed, &crowded}) CHECK(drawn_columns(*drawing) <= 80);
  CHECK(draw_nodes(resolve({}, cpus, {}), cpus, 0).empty());
  CHECK(draw_nodes(Plan(), cpus, 80).empty());
}

}  // namespace
}  // namespace cxtrain::testing
