#include <ATen/ATen.h>

#include <chrono>
#include <thread>

#include "fixture.h"

using namespace cxtrain::test;

namespace {

at::Tensor pinned(float value) { return at::full({4}, value, at::TensorOptions().pinned_memory(true)); }

bool holds(const at::Tensor& tensor, float value) { return tensor.equal(at::full_like(tensor, value)); }

struct Copies : TwoFakeDevices {
  c10::Event event{device.type()};
};

}  // namespace

TEST_CASE_METHOD(Copies, "Pinned memory is known as such") {
  const at::Tensor tensor = pinned(1);
  CHECK(tensor.is_pinned());
  CHECK(tensor.slice(0, 2).is_pinned());
  CHECK(tensor.device().is_cpu());
  CHECK_FALSE(at::ones({4}).is_pinned());
  CHECK(at::ones({4}).pin_memory().is_pinned());
  CHECK(tensor.pin_memory().is_same(tensor));
  CHECK(at::ones({4}, on_first_device()).to(at::kCPU, /*non_blocking=*/true).is_pinned());
}

TEST_CASE_METHOD(Copies, "A copy to pinned memory ends when the host knows that it has ended") {
  const at::Tensor source = at::full({4}, 7.f, on_first_device()), target = pinned(1);
  const HostReads host_reads;
  target.copy_(source, /*non_blocking=*/true);
  event.record(main);
  source.zero_();  // comes after the copy
  CHECK(holds(target, 1));
  CHECK(host_reads.count() == 0);
  SECTION("event") {
    event.synchronize();
    CHECK(host_reads.names() == std::vector<std::string>{"synchronize event"});
  }
  SECTION("query") {
    CHECK(event.query());
    CHECK(host_reads.count() == 0);
  }
  SECTION("stream") { main.synchronize(); }
  SECTION("device") { impl.synchronizeDevice(0); }
  SECTION("a stream that waited for it") {
    const c10::Stream side = side_stream();
    event.block(side);
    side.synchronize();
  }
  CHECK(holds(target, 7));
  CHECK(fake_races().empty());
}

TEST_CASE_METHOD(Copies, "An event before a copy, or of another stream, does not end it") {
  const at::Tensor source = at::full({4}, 7.f, on_first_device()), target = pinned(1);
  event.record(main);
  target.copy_(source, true);
  event.synchronize();
  side_stream().synchronize();
  CHECK(holds(target, 1));
  impl.synchronizeDevice(0);
  CHECK(holds(target, 7));
}

TEST_CASE_METHOD(Copies, "A host that writes to a pinned target before the copy's end is found") {
  const at::Tensor target = pinned(1);
  target.copy_(at::full({4}, 7.f, on_first_device()), true);
  target.fill_(2);
  main.synchronize();
  REQUIRE(fake_races().size() == 1);
  CHECK_THAT(fake_races()[0], contains("wrote to the pinned target"));
  forget_fake_races();
}

TEST_CASE_METHOD(Copies, "A copy from pinned memory reads it late, and a host that is too fast is found") {
  at::Tensor source = pinned(3);
  const at::Tensor target = at::empty({4}, on_first_device());
  target.copy_(source, true);
  SECTION("before anybody needs it") {
    CHECK(at::ones({4}, on_first_device()).add(1).defined());
    source.fill_(4);
    CHECK(holds(target.cpu(), 4));
    CHECK(fake_races().size() == 1);
  }
  SECTION("when it has been used") {
    const at::Tensor used = target + 1;
    source.fill_(4);
    CHECK(fake_races().size() == 1);
    CHECK_THAT(fake_races()[0], contains("changed the pinned source"));
    CHECK(holds(used.cpu(), 4));
    CHECK(fake_races().size() == 1);
  }
  SECTION("when it has ended") {
    event.record(main);
    event.synchronize();
    source.fill_(4);
    CHECK(holds(target.cpu(), 3));
    CHECK(fake_races().empty());
  }
  SECTION("when the tensor is gone") {
    const void* const memory = source.const_data_ptr();
    source.reset();
    CHECK(pinned(9).const_data_ptr() != memory);  // its copy has yet to be made
    CHECK(holds(target.cpu(), 3));
    CHECK(fake_races().empty());
  }
  forget_fake_races();
}

TEST_CASE_METHOD(Copies, "Pinned memory passes values on from one late copy to the next") {
  const at::Tensor source = at::full({4}, 7.f, on_first_device()), between = pinned(1);
  const at::Tensor target = at::empty({4}, on_first_device());
  between.copy_(source, true);
  target.copy_(between, true);
  between.copy_(source + 1, true);
  CHECK(holds(between, 1));
  const at::Tensor used = target + 1;
  CHECK(holds(between, 1));
  CHECK(holds(used.cpu(), 8));
  CHECK(holds(between, 8));
  CHECK(fake_races().empty());

  const c10::StreamGuard in(side_stream());
  at::Tensor other = at::empty({4}, on_first_device());
  between.copy_(other, true);
  const c10::StreamGuard back(main);
  CHECK_THROWS_AS(between.copy_(source, true), FakeDeviceRace);  // two streams write one pinned tensor
  forget_fake_races();
}

TEST_CASE_METHOD(Copies, "Copies that block, and those of memory that is not pinned, are finished at once") {
  const at::Tensor source = at::full({4}, 7.f, on_first_device());
  at::Tensor target;
  std::vector<std::string> expected;
  const HostReads host_reads;
  SECTION("to pageable memory, non-blocking") {
    target = at::zeros({4});
    target.copy_(source, true);
    expected = {"copy device to host"};
  }
  SECTION("to pageable memory") {
    target = source.cpu();
    expected = {"copy device to host"};
  }
  SECTION("to pinned memory") {
    target = pinned(0);
    target.copy_(source);
    expected = {"copy device to host"};
  }
  SECTION("of another dtype, non-blocking") {
    target = pinned(0).to(at::kDouble).pin_memory();
    target.copy_(source, true);
    expected = {"copy device to host"};
  }
  CHECK(holds(target, 7));
  CHECK(host_reads.names() == expected);

  const at::Tensor host = at::full({4}, 5.f);
  const at::Tensor on_device = host.to(device, /*non_blocking=*/true);
  host.zero_();
  CHECK(host_reads.names() == expected);
  CHECK(holds(on_device.cpu(), 5));
  CHECK(fake_races().empty());
}

TEST_CASE_METHOD(Copies, "Host reads are counted in their scope, on all threads") {
  const at::Tensor a = at::arange(4, on_first_device());
  const HostReads outer;
  a.sum().item();
  {
    const HostReads inner;
    std::thread([&] { a.equal(a); }).join();
    at::nonzero(a);
    CHECK(inner.names() == std::vector<std::string>{"aten::equal", "aten::nonzero"});
  }
  a.index({a > 1});
  a.index({at::tensor({1}, on_first_device().dtype(at::kLong))});
  a.to(device, at::kDouble);
  main.synchronize();
  event.record(main);
  event.synchronize();
  impl.synchronizeDevice(0);
  CHECK(outer.names() == std::vector<std::string>{"aten::_local_scalar_dense", "aten::equal", "aten::nonzero",
                                                  "aten::nonzero", "copy host to device",
                                                  "synchronize stream", "synchronize event",
                                                  "synchronize device"});
}

TEST_CASE_METHOD(Copies, "What a held stream was told does not end before the stream is released") {
  const at::Tensor source = at::full({4}, 7.f, on_first_device()), target = pinned(1);
  const c10::Stream side = side_stream();
  c10::Event before(device.type());
  before.record(side);
  hold(side);
  event.record(side);
  c10::Event behind(device.type());
  event.block(main);
  target.copy_(source, true);
  behind.record(main);

  CHECK(before.query());
  CHECK_FALSE(event.query());
  CHECK_FALSE(side.query());
  CHECK_FALSE(behind.query());
  CHECK_FALSE(main.query());
  CHECK(impl.getDefaultStream(fake_device(1)).query());
  CHECK(holds(target, 1));

  set_fake_wait_limit(0.05);
  CHECK_THROWS_WITH(behind.synchronize(), contains("held"));
  CHECK_THROWS(source.sum().item());
  CHECK(holds(target, 1));
  set_fake_wait_limit(20);

  const auto begin = std::chrono::steady_clock::now();
  std::thread releaser([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    release(side);
  });
  behind.synchronize();
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(50));
  releaser.join();
  CHECK(holds(target, 7));
  CHECK(event.query());
  CHECK(main.query());
}
