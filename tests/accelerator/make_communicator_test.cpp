#include "cxtrain/accelerator/make_communicator.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("two ranks that share a device are found by its UUID") {
  using Uuids = std::vector<std::vector<std::string>>;
  const Uuids distinct{{"GPU-a"}, {"GPU-b"}, {"GPU-c"}};
  CHECK_FALSE(ranks_sharing_a_device(distinct).has_value());
  const Uuids shared{{"GPU-a"}, {"GPU-b"}, {"GPU-c"}, {"GPU-b"}};
  CHECK(ranks_sharing_a_device(shared) == std::pair{1, 3});
  // A rank may have several, and name one twice; another rank may name the same in another order.
  const Uuids several{{"GPU-a", "GPU-a"}, {"GPU-b", "GPU-c"}, {"GPU-d"}};
  CHECK_FALSE(ranks_sharing_a_device(several).has_value());
  const Uuids crossed{{"GPU-a", "GPU-b"}, {"GPU-c", "GPU-d"}, {"GPU-d", "GPU-c"}};
  CHECK(ranks_sharing_a_device(crossed) == std::pair{1, 2});
}

}  // namespace
}  // namespace cxtrain
