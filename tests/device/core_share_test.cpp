#include "cxtrain/device/core_share.h"

#include <unistd.h>

#include "cxtrain/device/resources.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

using Cores = std::vector<int>;

TEST_CASE("the cores of a mask are divided among the ranks that have them", "[device]") {
  const Cores socket0{0, 1, 2, 3, 4, 5, 6, 7}, socket1{8, 9, 10, 11, 12, 13, 14, 15};
  Cores both = socket0;
  both.insert(both.end(), socket1.begin(), socket1.end());
  struct Row {
    const char* what;
    std::vector<Cores> masks;
    std::vector<int> shares;
  };
  const Row row = GENERATE_COPY(values<Row>({
      {"4 ranks bound to 2 sockets, as mpirun does with more than 2",
       {socket0, socket1, socket0, socket1},
       {4, 4, 4, 4}},
      {"4 unbound ranks", {both, both, both, both}, {4, 4, 4, 4}},
      {"a core each, as mpirun does with 2", {{0}, {8}}, {1, 1}},
      {"3 on one socket, 1 on the other", {socket0, socket0, socket0, socket1}, {2, 2, 2, 8}},
      {"3 on 3 cores", {{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}, {1, 1, 1}},
      {"more ranks than cores", {{0, 1}, {0, 1}, {0, 1}}, {1, 1, 1}},
      {"one bound, one not", {socket0, both}, {4, 12}},
      {"alone", {both}, {16}},
      {"unknown", {{}}, {1}},
  }));
  CAPTURE(row.what);
  CHECK(core_shares(row.masks) == row.shares);
}

TEST_CASE("ranks that lack a core of their own are counted, however the others may be spread", "[device]") {
  CHECK(ranks_without_core(std::vector<Cores>{}) == 0);
  CHECK(ranks_without_core(std::vector<Cores>{{0, 1}, {0, 1}}) == 0);
  CHECK(ranks_without_core(std::vector<Cores>{{0, 1}, {0}}) == 0);  // the first one makes way
  CHECK(ranks_without_core(std::vector<Cores>{{0, 1}, {1, 2}, {2}, {0, 1, 2}}) == 1);
  CHECK(ranks_without_core(std::vector<Cores>{{0}, {0}, {0}, {1, 2, 3, 4}}) == 2);
}

TEST_CASE("this process has a mask, and as many cores in it as it may run on", "[device]") {
  CHECK(static_cast<int>(cores_of_mask().size()) == cores_of_this_process());
}

TEST_CASE("a rank with fewer cores than busy threads is warned of", "[device]") {
  CHECK(too_few_cores(0, 1, true, 0, false).empty());
  CHECK(too_few_cores(0, 2, true, 0, true).empty());
  CHECK(too_few_cores(0, 6, true, 4, true).empty());
  CHECK_THAT(too_few_cores(3, 1, true, 0, true), test::contains("rank 3") && test::contains("1 core") &&
                                                     test::contains("keeps 2") &&
                                                     test::contains("--bind-to none"));
  CHECK_THAT(too_few_cores(0, 2, true, 4, false),
             test::contains("keeps 5 busy") && test::contains("4 data workers") &&
                 test::contains("--cpus-per-task 5") && test::contains("fewer --data.num_workers"));
  CHECK_THAT(too_few_cores(0, 1, false, 2, false),
             test::contains("fewer ranks") && !test::contains("--bind-to none"));
}

}  // namespace
}  // namespace cxtrain
