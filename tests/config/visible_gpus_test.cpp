#include "cxtrain/config/devices.h"

#include "config/resolve_support.h"
#include "support/catch.h"

using namespace cxtrain;
using namespace cxtrain::testing;

namespace {

std::vector<Gpu> four_gpus() {
  std::vector<Gpu> gpus(4);
  const char* uuids[] = {"GPU-aa10", "GPU-aa20", "GPU-bb30", "GPU-bb3"};
  for (int i = 0; i < 4; ++i) {
    gpus[static_cast<std::size_t>(i)].index = i;
    gpus[static_cast<std::size_t>(i)].uuid = uuids[i];
  }
  return gpus;
}

std::vector<int> seen(const std::optional<std::string>& variable) {
  std::vector<int> indices;
  for (const Gpu& gpu : visible_gpus(four_gpus(), variable).gpus) indices.push_back(gpu.index);
  return indices;
}

}  // namespace

TEST_CASE("CUDA_VISIBLE_DEVICES as CUDA reads it", "[config]") {
  CHECK(seen(std::nullopt) == List{0, 1, 2, 3});
  CHECK(seen("") == List{});
  CHECK(seen("2,3") == List{2, 3});
  CHECK(seen(" 3 , 0 ") == List{3, 0});
  CHECK(seen("-1") == List{});
  CHECK(seen("NoDevFiles") == List{});
  CHECK(seen("0,-1,2") == List{0});
  CHECK(seen("1,9,2") == List{1});
  CHECK(seen("0,x,1") == List{0});
  CHECK(seen("0,,1") == List{0});
  CHECK(seen("1gpu,2") == List{1, 2});
  CHECK(seen("0,1,0") == List{});
  CHECK(seen(" ") == List{});
  CHECK(seen(",0") == List{});
  CHECK(seen("-2,0") == List{});
  CHECK(seen("3,2,1,0") == List{3, 2, 1, 0});
  CHECK(seen("99999999999999999999") == List{});
}

TEST_CASE("CUDA_VISIBLE_DEVICES by UUID", "[config]") {
  CHECK(seen("GPU-bb30,GPU-aa10") == List{2, 0});
  CHECK(seen("GPU-aa2") == List{1});
  CHECK(seen("GPU-aa") == List{});    // two begin like this
  CHECK(seen("GPU-bb3") == List{3});  // a whole UUID, though another begins with it
  CHECK(seen("GPU-aa10,GPU-cc") == List{0});
  CHECK(seen("GPU-aa10,GPU-aa1") == List{});  // the same twice
  CHECK(seen("GPU-") == List{});
  CHECK(seen("GPU-aa10,GPU-bb,2") == List{0});
  CHECK(seen("MIG-aa10") == List{});
}

TEST_CASE("the entry that ended the list is reported", "[config]") {
  CHECK(visible_gpus(four_gpus(), "1,9,2").ignored == "9");
  CHECK(visible_gpus(four_gpus(), "1,2").ignored.empty());
}
