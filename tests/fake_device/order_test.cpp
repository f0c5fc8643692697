#include <ATen/ATen.h>

#include <set>

#include "fixture.h"

using namespace cxtrain::test;

namespace {}  // namespace

TEST_CASE_METHOD(TwoFakeDevices, "Streams of a fake device have ids and handles of their own") {
  CHECK(impl.getDefaultStream(device).id() == 0);
  CHECK(impl.getStream(device) == impl.getDefaultStream(device));
  std::set<void*> handles;
  std::set<c10::StreamId> ids;
  for (int i = 0; i < 32; ++i) {
    for (const bool high : {false, true}) {
      const c10::Stream stream = impl.getStreamFromGlobalPool(device, high);
      ids.insert(stream.id());
      handles.insert(stream.native_handle());
    }
  }
  CHECK(ids.size() == 64);
  CHECK(handles.size() == 64);
  CHECK_FALSE(handles.contains(nullptr));
  CHECK(side_stream().native_handle() != impl.getDefaultStream(fake_device(1)).native_handle());
  const c10::Stream side = side_stream();
  {
    const c10::StreamGuard in(side);
    CHECK(impl.getStream(device) == side);
  }
  CHECK(impl.getStream(device) == impl.getDefaultStream(device));
}

TEST_CASE_METHOD(TwoFakeDevices,
                 "A read before the write has ended is a race, and with an event it is none") {
  const at::Tensor a = at::zeros({8}, on_first_device());
  const c10::Stream side = side_stream();
  {
    const c10::StreamGuard in(side);
    CHECK_THROWS_AS(a + 1, FakeDeviceRace);
    REQUIRE(fake_races().size() == 1);
    CHECK_THAT(fake_races()[0], contains("aten::add") && contains("stream " + std::to_string(side.id())) &&
                                    contains("reads Float [8]") &&
                                    contains("aten::zero_ on fake:0, stream 0"));
    CHECK_THROWS_AS(a.add_(1), FakeDeviceRace);
    CHECK_THROWS_AS(a.cpu(), FakeDeviceRace);
    CHECK_THROWS_AS(a.item(), std::exception);
    wait(side, main);
    forget_fake_races();
    CHECK((a + 1).sum().item<float>() == 8);
    a.add_(1);
  }
  CHECK_THROWS_AS(a.mul_(2), FakeDeviceRace);  // written on the side stream
  wait(main, side);
  forget_fake_races();
  a.mul_(2);
  CHECK(a.cpu().equal(at::full({8}, 2.f)));
  CHECK(fake_races().empty());
}

TEST_CASE_METHOD(TwoFakeDevices, "What an operation has made is written by it") {
  const at::Tensor a = at::ones({2, 4}, on_first_device());
  const c10::Stream side = side_stream();
  wait(side, main);
  at::Tensor made;
  {
    const c10::StreamGuard in(side);
    made = at::layer_norm(a, {4});
  }
  CHECK_THROWS_WITH(made + 1, contains("aten::native_layer_norm on fake:0, stream") && contains("write it"));
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "Two readers are no race, a writer after one of them is") {
  const at::Tensor a = at::zeros({8}, on_first_device());
  const c10::Stream one = side_stream(), two = side_stream();
  wait(one, main);
  wait(two, main);
  at::Tensor read_one, read_two;
  {
    const c10::StreamGuard in(one);
    read_one = a + 1;
  }
  {
    const c10::StreamGuard in(two);
    read_two = a + 1;
  }
  wait(main, one);
  CHECK_THROWS_WITH(a.zero_(), contains("stream " + std::to_string(two.id())) && contains("may still read"));
  wait(main, two);
  forget_fake_races();
  a.zero_();
  CHECK(fake_races().empty());
}

TEST_CASE_METHOD(TwoFakeDevices,
                 "An event stands for what came before it only, also by way of a third stream") {
  const at::Tensor a = at::zeros({8}, on_first_device()), b = at::zeros({8}, on_first_device());
  const c10::Stream one = side_stream(), two = side_stream();
  c10::Event event(device.type());
  event.record(main);
  b.add_(1);
  event.block(one);
  wait(two, one);
  const c10::StreamGuard in(two);
  CHECK((a + 1).defined());
  CHECK_THROWS_AS(b + 1, FakeDeviceRace);
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "The host orders what it has waited for before what it launches") {
  const at::Tensor a = at::zeros({8}, on_first_device());
  const c10::Stream side = side_stream();
  const auto use = [&] {
    const c10::StreamGuard in(side);
    return a + 1;
  };
  CHECK_THROWS_AS(use(), FakeDeviceRace);
  SECTION("stream") { main.synchronize(); }
  SECTION("device") { impl.synchronizeDevice(0); }
  SECTION("query") { CHECK(main.query()); }
  SECTION("event") {
    c10::Event event(device.type());
    event.record(main);
    SECTION("synchronize") { event.synchronize(); }
    SECTION("query") { CHECK(event.query()); }
  }
  SECTION("a value that it reads") { a.sum().item(); }
  forget_fake_races();
  CHECK(use().defined());
  CHECK(fake_races().empty());
  wait_for_all();
}

TEST_CASE_METHOD(TwoFakeDevices, "Bytes count: slices of one arena belong to two streams at once") {
  const at::Tensor arena = at::zeros({64, 8}, on_first_device());
  const c10::Stream side = side_stream();
  wait(side, main);
  arena.slice(0, 0, 32).add_(1);
  const c10::StreamGuard in(side);
  arena.slice(0, 32, 64).add_(2);
  CHECK_THROWS_AS(arena.slice(0, 31, 33).add_(1), FakeDeviceRace);
  CHECK_THROWS_AS(arena.sum(), FakeDeviceRace);
  wait(side, main);
  forget_fake_races();
  CHECK(arena.sum().item<float>() == 64 * 4 * 3);
}

TEST_CASE_METHOD(TwoFakeDevices, "Bytes count: what was not written over is remembered") {
  const at::Tensor arena = at::zeros({64}, on_first_device());
  const c10::Stream side = side_stream();
  arena.slice(0, 0, 64).add_(1);
  wait(side, main);
  {
    const c10::StreamGuard in(side);
    arena.slice(0, 16, 32).add_(1);
  }
  const c10::StreamGuard in(side_stream());
  const std::string on_first = "on fake:0, stream 0 may still",
                    on_second = "stream " + std::to_string(side.id()) + " may";
  CHECK_THROWS_WITH(arena.slice(0, 0, 16).add_(1), contains(on_first));
  CHECK_THROWS_WITH(arena.slice(0, 16, 32).add_(1), contains(on_second));
  CHECK_THROWS_WITH(arena.slice(0, 32, 64).add_(1), contains(on_first));
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "Bytes count: columns of one matrix, and slices along two dimensions") {
  const at::Tensor matrix = at::zeros({300, 8}, on_first_device()),
                   cube = at::zeros({5, 6, 8}, on_first_device());
  const c10::Stream side = side_stream();
  wait(side, main);
  matrix.slice(1, 0, 4).add_(1);
  cube.slice(1, 0, 3).slice(2, 0, 4).add_(1);
  const c10::StreamGuard in(side);
  matrix.slice(1, 4, 8).add_(1);
  cube.slice(1, 0, 3).slice(2, 4, 8).add_(1);
  cube.slice(1, 3, 6).add_(1);
  CHECK(fake_races().empty());
  CHECK_THROWS_AS(matrix.slice(1, 3, 5).add_(1), FakeDeviceRace);
  CHECK_THROWS_AS(cube.slice(1, 2, 4).add_(1), FakeDeviceRace);
  CHECK_THROWS_AS(matrix.select(0, 299).add_(1), FakeDeviceRace);
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices,
                 "Memory may be freed when its stream knows that nobody uses it, or was told") {
  const c10::Stream side = side_stream();
  at::Tensor a = at::zeros({8}, on_first_device());
  wait(side, main);
  at::Tensor kept;
  {
    const c10::StreamGuard in(side);
    kept = a + 1;
  }
  SECTION("nothing") {
    a.reset();
    REQUIRE(fake_races().size() == 1);
    CHECK_THAT(fake_races()[0], contains("freed") && contains("record_stream"));
  }
  SECTION("record_stream") {
    a.record_stream(side);
    a.reset();
    CHECK(fake_races().empty());
  }
  SECTION("an event") {
    wait(main, side);
    a.reset();
    CHECK(fake_races().empty());
  }
  SECTION("the host") {
    side.synchronize();
    a.reset();
    CHECK(fake_races().empty());
  }
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "A copy between devices is ordered with both devices' current streams") {
  const at::Tensor a = at::ones({8}, on_first_device());
  const at::Tensor b = a.to(fake_device(1));
  CHECK((b + 1).device() == fake_device(1));
  a.add_(1);
  b.copy_(a);
  CHECK((b + 1).cpu().equal(at::full({8}, 3.f)));
  CHECK(fake_races().empty());

  a.add_(1);
  const c10::StreamGuard in(side_stream());
  CHECK_THROWS_AS(b.copy_(a), FakeDeviceRace);
  forget_fake_races();
}

TEST_CASE_METHOD(TwoFakeDevices, "Events of a fake device know device and time") {
  c10::Event plain(device.type()), begin(device.type(), c10::EventFlag::BACKEND_DEFAULT),
      end(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  CHECK(plain.query());
  begin.record(main);
  end.record(main);
  plain.record(main);
  CHECK(begin.elapsedTime(end) >= 0);
  CHECK_THROWS(begin.elapsedTime(plain));
  CHECK_THROWS(plain.record(impl.getDefaultStream(fake_device(1))));
}
