#include <ATen/autocast_mode.h>
#include <ATen/ops/rand.h>

#include <thread>

#include "cxtrain/precision/policy.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

at::Tensor converted(const at::Tensor& weight) {
  return at::autocast::cached_cast(at::kBFloat16, weight, c10::DeviceType::CPU);
}

TEST_CASE("a weight is converted once in a forward pass, whatever other threads end theirs meanwhile") {
  const at::Tensor weight = at::rand({4}).set_requires_grad(true);
  at::Tensor first;
  {
    const AutocastGuard outer(at::kCPU, at::kBFloat16);
    first = converted(weight);
    CHECK(converted(weight).is_same(first));
    std::thread([] { const AutocastGuard another(at::kCPU, at::kBFloat16); }).join();
    { const AutocastGuard inner(at::kCPU, at::kBFloat16); }
    CHECK(converted(weight).is_same(first));
  }
  const AutocastGuard next(at::kCPU, at::kBFloat16);
  CHECK_FALSE(converted(weight).is_same(first));  // an optimizer step may have come between
}

}  // namespace
}  // namespace cxtrain
