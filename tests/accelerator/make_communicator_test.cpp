#include "cxtrain/accelerator/make_communicator.h"

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("two ranks that share a device are found by its UUID") {
  const std::vector<std::string> distinct{"GPU-a", "GPU-b", "GPU-c"};
  CHECK_FALSE(ranks_sharing_a_device(distinct).has_value());
  const std::vector<std::string> shared{"GPU-a", "GPU-b", "GPU-c", "GPU-b"};
  CHECK(ranks_sharing_a_device(shared) == std::pair{1, 3});
}

}  // namespace
}  // namespace cxtrain
