#include "cxtrain/trainer/rank_table.h"

#include <vector>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("the table of ranks has a line for each that differs, in columns") {
  const std::vector<RankPlace> cpus{{0, "n1", "0-7", "0", "-", "-"},
                                    {1, "n1", "0-7", "0", "-", "-"},
                                    {2, "n1", "8-15", "1", "-", "-"},
                                    {3, "n10", "0-7", "0", "-", "-"}};
  CHECK(rank_table(cpus) ==
        "rank  host  cores  NUMA  GPU  UUID\n"
        "0-1   n1    0-7    0     -    -\n"
        "2     n1    8-15   1     -    -\n"
        "3     n10   0-7    0     -    -");
  const std::vector<RankPlace> gpus{{0, "n1", "0-7", "0", "0", "GPU-a"}, {1, "n1", "0-7", "0", "1", "GPU-b"}};
  CHECK(rank_table(gpus) ==
        "rank  host  cores  NUMA  GPU  UUID\n"
        "0     n1    0-7    0     0    GPU-a\n"
        "1     n1    0-7    0     1    GPU-b");
}

TEST_CASE("ten thousand ranks on equal cores take a line for each node") {
  std::vector<RankPlace> places;
  for (int rank = 0; rank < 10'000; ++rank)
    places.push_back({rank, "n" + std::to_string(rank / 8), "0-63", "0-1", "-", "-"});
  const std::string table = rank_table(places);
  CHECK(std::count(table.begin(), table.end(), '\n') == 10'000 / 8);
  CHECK_THAT(table, test::contains("9992-9999  n1249  0-63"));
}

}  // namespace
}  // namespace cxtrain
