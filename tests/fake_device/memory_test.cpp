#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <cmath>

#include "support/catch.h"
#include "support/fake_device/fake_device.h"

using namespace cxtrain::test;

namespace {

const c10::Device first = fake_device(0), second = fake_device(1);

at::TensorOptions on(c10::Device device) { return at::device(device).dtype(at::kFloat); }

}  // namespace

TEST_CASE("A fake device counts its memory, and has no more than it was given") {
  use_fake_devices(2);
  auto* const memory = c10::getDeviceAllocator(c10::DeviceType::PrivateUse1);
  const std::size_t before = fake_allocated_bytes(second);
  const std::size_t other = fake_allocated_bytes(first);
  memory->resetPeakStats(1);
  {
    const at::Tensor a = at::zeros({1000}, on(second));
    const at::Tensor b = a + 1;
    CHECK(fake_allocated_bytes(second) - before == 8000);
    CHECK(b.device() == second);
  }
  CHECK(fake_allocated_bytes(second) == before);
  CHECK(fake_allocated_bytes(first) == other);
  CHECK(memory->getDeviceStats(1).allocated_bytes[0].peak == static_cast<std::int64_t>(before) + 8000);

  const std::size_t total = memory->getMemoryInfo(1).second;
  set_fake_capacity(second, before + 5000);
  CHECK(memory->getMemoryInfo(1).first == 5000);
  const at::Tensor a = at::zeros({1000}, on(second));
  CHECK_THROWS_AS(at::zeros({1000}, on(second)), c10::OutOfMemoryError);
  CHECK_THROWS_AS(a.repeat({2}), c10::OutOfMemoryError);
  CHECK_THROWS_AS(at::cumsum(a, 0, at::kDouble), c10::OutOfMemoryError);
  set_fake_capacity(second, total);
  CHECK(at::cumsum(a, 0, at::kDouble).size(0) == 1000);
  memory->emptyCache();
}

TEST_CASE("Memory that nobody has written holds no numbers") {
  use_fake_devices(2);
  CHECK(std::isnan(at::empty({1}, on(first)).item<float>()));
}

TEST_CASE("LibTorch takes the fake device for the accelerator") {
  use_fake_devices(2);
  CHECK(at::accelerator::getAccelerator() == c10::DeviceType::PrivateUse1);
  CHECK(at::accelerator::deviceCount() >= 2);
  CHECK(first.str() == "fake:0");
  const c10::DeviceGuard guard(second);
  CHECK(at::empty({1}, at::device(c10::DeviceType::PrivateUse1)).device() == second);
  CHECK(at::accelerator::getDeviceIndex() == 1);
}

TEST_CASE("Tensors of an operation lie on one device, but for scalars and indices of the CPU") {
  use_fake_devices(2);
  const at::Tensor a = at::ones({3}, on(first)), b = at::ones({3}, on(second)), c = at::ones({3});
  CHECK_THROWS_WITH(a + b, contains("same device"));
  CHECK_THROWS_WITH(a + c, contains("same device"));
  CHECK_THROWS_WITH(c + a, contains("same device"));
  CHECK_THROWS_WITH(at::cat({a, b}), contains("same device"));
  CHECK_THROWS_WITH(at::mm(at::ones({1, 3}, on(second)), a.view({3, 1})), contains("same device"));
  CHECK((a + at::ones({})).sum().item<float>() == 6);
  CHECK(a.index({at::tensor({0, 2})}).sum().item<float>() == 2);
  CHECK((a + b.to(first)).device() == first);
}

TEST_CASE("Views, strides, resizing and storage of fake tensors are those of any other") {
  use_fake_devices(2);
  const at::Tensor a = at::arange(12, on(first)).view({3, 4});
  const at::Tensor column = a.select(1, 2);
  column.fill_(-1);
  CHECK(a.cpu().equal(at::tensor({0, 1, -1, 3, 4, 5, -1, 7, 8, 9, -1, 11}, at::kFloat).view({3, 4})));
  CHECK(a.t().contiguous().cpu().equal(a.cpu().t()));
  CHECK(a.t().storage().is_alias_of(a.storage()));
  CHECK(a.unfold(1, 2, 2).sizes() == at::IntArrayRef({3, 2, 2}));
  CHECK(a.to(at::MemoryFormat::Contiguous).is_same(a));

  at::Tensor grown = at::arange(3, on(first));
  grown.resize_({5});
  CHECK(grown.slice(0, 0, 3).cpu().equal(at::arange(3, at::kFloat)));
  at::Tensor out = at::empty({0}, on(first));
  at::add_out(out, grown.slice(0, 0, 3), at::ones({3}, on(first)));
  CHECK(out.cpu().equal(at::tensor({1, 2, 3}, at::kFloat)));
  at::Tensor other = at::empty({0}, on(first));
  other.set_(a.storage(), 4, {2}, {1});
  CHECK(other.cpu().equal(at::tensor({4, 5}, at::kFloat)));
  at::Tensor same = at::empty({0}, on(first));
  same.set_(a);
  CHECK(same.is_set_to(a));
  CHECK(same.set_().numel() == 0);

  const at::Tensor blob = at::from_blob(a.mutable_data_ptr(), {2}, at::device(c10::DeviceType::PrivateUse1));
  CHECK(blob.device() == first);
  CHECK(blob.cpu().equal(a.cpu().view(-1).slice(0, 0, 2)));

  const auto version = a._version();
  a.add_(1);
  CHECK(a._version() == version + 1);
  CHECK(a.masked_select(a > 9).numel() == 2);
  CHECK(at::nonzero(a > 9).size(0) == 2);
}
