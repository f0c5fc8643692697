#include <ATen/ATen.h>

#include "support/catch.h"
#include "support/fake_device/fake_device.h"

using namespace cxtrain::test;

namespace {

at::TensorOptions on(int device) { return at::device(fake_device(device)).dtype(at::kFloat); }

at::Generator generator(int device) { return at::globalContext().defaultGenerator(fake_device(device)); }

void seed(int device, std::uint64_t seed) {
  at::Generator own = generator(device);
  own.set_current_seed(seed);
}

void seed_host(std::uint64_t seed) {
  at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
  host.set_current_seed(seed);
}

at::Tensor mask(int device) { return at::dropout(at::ones({100}, on(device)), 0.5, true).cpu(); }

}  // namespace

TEST_CASE("Each fake device draws from its own generator") {
  use_fake_devices(2);
  seed(0, 1);
  seed(1, 2);
  const at::Tensor one = mask(0), two = mask(1);
  CHECK_FALSE(one.equal(two));
  seed(1, 1);
  CHECK(one.equal(mask(1)));
  CHECK_FALSE(one.equal(mask(1)));

  seed_host(7);
  const at::Tensor host = at::rand({5});
  seed_host(7);
  at::rand({5}, on(0));
  at::randperm(5, on(1).dtype(at::kLong));
  mask(0);
  CHECK(host.equal(at::rand({5})));  // the CPU's has not been touched
}

TEST_CASE("A fake device's generator can be saved and restored, and given") {
  use_fake_devices(2);
  at::Generator own = generator(0);
  own.set_current_seed(5);
  mask(0);
  const at::Tensor state = own.get_state();
  const at::Tensor expected = at::randn({8}, on(0)).cpu();
  CHECK_FALSE(expected.equal(at::randn({8}, on(0)).cpu()));
  at::Generator again = own;
  again.set_state(state);
  CHECK(expected.equal(at::randn({8}, on(0)).cpu()));

  at::Generator other = own.clone();
  other.set_current_seed(5);
  own.set_current_seed(5);
  const at::Tensor given = at::rand({4}, other, on(0));
  CHECK(given.cpu().equal(at::rand({4}, on(0)).cpu()));
  CHECK_THROWS_WITH(at::rand({4}, other, on(1)), contains("generator"));
  CHECK_THROWS_WITH(at::empty({4}, on(0)).normal_(0, 1, at::globalContext().defaultGenerator(at::kCPU)),
                    contains("generator"));
}
