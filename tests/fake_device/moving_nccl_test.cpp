#include <ATen/ATen.h>

#include <thread>

#include "fixture.h"
#include "support/fake_device/moving_nccl.h"

using namespace cxtrain::test;
using cxtrain::NcclLibrary;

namespace {

/// A communicator for each of some tensors' devices, all of one process, and a stream for each.
struct Peers {
  Peers(MovingNccl& nccl, std::size_t size, int blocking = 1) : library(nccl.library()) {
    ncclUniqueId id;
    library.get_unique_id(&id);
    comms.resize(size);
    library.group_start();
    for (std::size_t i = 0; i < size; ++i) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking;
      library.comm_init_rank_config(&comms[i], static_cast<int>(size), id, static_cast<int>(i), &config);
      devices.push_back(fake_device(static_cast<int>(i % 2)));  // NCCL would want a device for each
      streams.push_back(impl.getStreamFromGlobalPool(devices[i]));
    }
    result = library.group_end();
  }

  /// Waits on the host until nothing is in progress.
  ncclResult_t poll(std::size_t i) const {
    ncclResult_t error = ncclInProgress;
    for (int tries = 0; tries < 5 && error == ncclInProgress; ++tries)
      library.comm_get_async_error(comms[i], &error);
    return error;
  }
  cudaStream_t handle(std::size_t i) const { return static_cast<cudaStream_t>(streams[i].native_handle()); }
  /// `make(i)` on each member's device and stream.
  template <typename Make>
  std::vector<at::Tensor> tensors(Make make) const {
    std::vector<at::Tensor> all;
    for (std::size_t i = 0; i < comms.size(); ++i) {
      const c10::StreamGuard in(streams[i]);
      all.push_back(make(static_cast<int>(i)).to(devices[i]));
    }
    return all;
  }
  /// `operation(i)` of each member as one group.
  template <typename Operation>
  ncclResult_t together(Operation operation) {
    library.group_start();
    for (std::size_t i = 0; i < comms.size(); ++i) CHECK(operation(i) == ncclSuccess);
    return library.group_end();
  }
  ncclResult_t all_reduce(const std::vector<at::Tensor>& values, ncclDataType_t type = ncclFloat32,
                          ncclRedOp_t op = ncclSum) {
    return together([&](std::size_t i) {
      void* const data = values[i].mutable_data_ptr();
      return library.all_reduce(data, data, static_cast<std::size_t>(values[i].numel()), type, op, comms[i],
                                handle(i));
    });
  }
  at::Tensor read(const at::Tensor& tensor, std::size_t i) const {
    const c10::StreamGuard in(streams[i]);
    return tensor.cpu();
  }

  NcclLibrary library;
  std::vector<ncclComm_t> comms;
  std::vector<c10::Device> devices;
  std::vector<c10::Stream> streams;
  ncclResult_t result = ncclSuccess;
  c10::impl::VirtualGuardImpl impl{c10::DeviceType::PrivateUse1};
};

at::Tensor floats(std::initializer_list<double> values) {
  return at::tensor(at::ArrayRef<double>(values)).to(at::kFloat);
}

struct Fixture : TwoFakeDevices {
  MovingNccl nccl;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "Collectives move bytes between 2 and 4 communicators of a process") {
  const auto size = GENERATE(std::size_t{2}, std::size_t{4});
  const int n = static_cast<int>(size);
  Peers peers(nccl, size);
  REQUIRE(peers.result == ncclSuccess);
  for (std::size_t i = 0; i < size; ++i) {
    int rank = -1, count = -1;
    peers.library.comm_user_rank(peers.comms[i], &rank);
    peers.library.comm_count(peers.comms[i], &count);
    CHECK(rank == static_cast<int>(i));
    CHECK(count == n);
  }
  const auto values = peers.tensors([](int i) { return floats({1. + i, 10., -1. * i}); });
  SECTION("all_reduce") {
    CHECK(peers.all_reduce(values) == ncclSuccess);
    for (std::size_t i = 0; i < size; ++i)
      CHECK(peers.read(values[i], i).equal(floats({n * (n + 1) / 2., 10. * n, -n * (n - 1) / 2.})));
  }
  SECTION("all_reduce: avg, min, max") {
    CHECK(peers.all_reduce(values, ncclFloat32, ncclAvg) == ncclSuccess);
    CHECK(peers.read(values[1], 1).equal(floats({(n + 1) / 2., 10, -(n - 1) / 2.})));
    const auto others = peers.tensors([](int i) { return floats({1. * i}); });
    peers.all_reduce(others, ncclFloat32, ncclMax);
    CHECK(peers.read(others[0], 0).equal(floats({n - 1.})));
    const auto more = peers.tensors([](int i) { return floats({1. + i}); });
    peers.all_reduce(more, ncclFloat32, ncclMin);
    CHECK(peers.read(more[1], 1).equal(floats({1})));
  }
  SECTION("reduce") {
    peers.together([&](std::size_t i) {
      void* const data = values[i].mutable_data_ptr();
      return peers.library.reduce(data, data, 3, ncclFloat32, ncclSum, 1, peers.comms[i], peers.handle(i));
    });
    CHECK(peers.read(values[1], 1)[1].item<double>() == 10. * n);
    CHECK(peers.read(values[0], 0).equal(floats({1, 10, 0})));
  }
  SECTION("broadcast") {
    peers.together([&](std::size_t i) {
      void* const data = values[i].mutable_data_ptr();
      return peers.library.broadcast(data, data, 12, ncclUint8, 1, peers.comms[i], peers.handle(i));
    });
    for (std::size_t i = 0; i < size; ++i) CHECK(peers.read(values[i], i).equal(floats({2, 10, -1})));
  }
  SECTION("all_gather and reduce_scatter") {
    const auto gathered = peers.tensors([&](int) { return at::zeros({3 * n}); });
    const auto shares = peers.tensors([](int) { return at::zeros({3}); });
    peers.together([&](std::size_t i) {
      return peers.library.all_gather(values[i].const_data_ptr(), gathered[i].mutable_data_ptr(), 3,
                                      ncclFloat32, peers.comms[i], peers.handle(i));
    });
    std::vector<at::Tensor> expected;
    for (int i = 0; i < n; ++i) expected.push_back(floats({1. + i, 10., -1. * i}));
    peers.together([&](std::size_t i) {
      return peers.library.reduce_scatter(gathered[i].const_data_ptr(), shares[i].mutable_data_ptr(), 3,
                                          ncclFloat32, ncclSum, peers.comms[i], peers.handle(i));
    });
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(peers.read(gathered[i], i).equal(at::cat(expected)));
      CHECK(peers.read(shares[i], i).equal(expected[i] * n));
    }
  }
  SECTION("send and recv, to the next one") {
    const auto received = peers.tensors([](int) { return at::zeros({3}); });
    peers.together([&](std::size_t i) {
      const int me = static_cast<int>(i);
      peers.library.send(values[i].const_data_ptr(), 3, ncclFloat32, (me + 1) % n, peers.comms[i],
                         peers.handle(i));
      return peers.library.recv(received[i].mutable_data_ptr(), 3, ncclFloat32, (me + n - 1) % n,
                                peers.comms[i], peers.handle(i));
    });
    for (std::size_t i = 0; i < size; ++i)
      CHECK(peers.read(received[(i + 1) % size], (i + 1) % size).equal(peers.read(values[i], i)));
    CHECK(nccl.count("send 3 float32 to 1") >= 1);
  }
  CHECK(nccl.calls()[0] == "get_unique_id");
  CHECK(nccl.count("comm_init_rank_config") == n);
}

TEST_CASE_METHOD(Fixture, "Every dtype that cxtrain sends is summed") {
  const auto [type, dtype] = GENERATE(table<ncclDataType_t, at::ScalarType>({{ncclFloat32, at::kFloat},
                                                                             {ncclFloat64, at::kDouble},
                                                                             {ncclFloat16, at::kHalf},
                                                                             {ncclBfloat16, at::kBFloat16},
                                                                             {ncclInt32, at::kInt},
                                                                             {ncclInt64, at::kLong},
                                                                             {ncclUint8, at::kByte}}));
  Peers peers(nccl, 3);
  const at::ScalarType of = dtype;
  const auto values = peers.tensors([of](int i) { return floats({1. + i, 8}).to(of); });
  peers.all_reduce(values, type);
  CHECK(peers.read(values[2], 2).equal(floats({6, 24}).to(of)));
}

TEST_CASE_METHOD(Fixture, "A split makes communicators of members by color and key") {
  Peers peers(nccl, 4);
  std::vector<ncclComm_t> parts(4);
  peers.together([&](std::size_t i) {
    const int color = i == 3 ? NCCL_SPLIT_NOCOLOR : static_cast<int>(i % 2);
    return peers.library.comm_split(peers.comms[i], color, -static_cast<int>(i), &parts[i], nullptr);
  });
  CHECK(parts[3] == nullptr);
  int rank = -1, count = -1;
  peers.library.comm_user_rank(parts[0], &rank);
  peers.library.comm_count(parts[0], &count);
  CHECK(rank == 1);  // member 2 has the smaller key
  CHECK(count == 2);
  const auto values = peers.tensors([](int i) { return floats({1. + i}); });
  peers.library.group_start();
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    void* const data = values[i].mutable_data_ptr();
    peers.library.all_reduce(data, data, 1, ncclFloat32, ncclSum, parts[i], peers.handle(i));
  }
  CHECK(peers.library.group_end() == ncclSuccess);
  CHECK(peers.read(values[0], 0).item<float>() == 4);
}

TEST_CASE_METHOD(Fixture, "Threads with a communicator each meet in their calls") {
  const NcclLibrary library = nccl.library();
  ncclUniqueId id;
  library.get_unique_id(&id);
  const int blocking = GENERATE(0, 1);
  std::vector<at::Tensor> values;
  for (int i = 0; i < 4; ++i) values.push_back(at::full({5}, 1.f + static_cast<float>(i)).to(fake_device(0)));
  wait_for_all();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      ncclComm_t comm = nullptr;
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking;
      const auto ended = [&](ncclResult_t status) {
        while (status == ncclInProgress) library.comm_get_async_error(comm, &status);
        return status == ncclSuccess;
      };
      const c10::Stream stream = side_stream();
      bool good = ended(library.comm_init_rank_config(&comm, 4, id, i, &config));
      void* const data = values[static_cast<std::size_t>(i)].mutable_data_ptr();
      for (int round = 0; round < 10; ++round)
        good = good && ended(library.all_reduce(data, data, 5, ncclFloat32, ncclAvg, comm,
                                                static_cast<cudaStream_t>(stream.native_handle())));
      if (!good) nccl.report_async(ncclSystemError);
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_for_all();
  for (const at::Tensor& value : values) CHECK(value.cpu().equal(at::full({5}, 2.5f)));
}

TEST_CASE_METHOD(Fixture, "A collective is an operation of each member's stream") {
  Peers peers(nccl, 2);
  const at::Tensor arena = at::zeros({64}, at::device(device));
  const std::vector<at::Tensor> values{arena.slice(0, 0, 32), at::zeros({32}, at::device(fake_device(1)))};
  SECTION("it has to wait for the work before it") {
    CHECK_THROWS_WITH(peers.all_reduce(values), contains("nccl all_reduce") && contains("aten::zero_"));
  }
  wait(peers.streams[0], main);
  wait(peers.streams[1], impl.getStream(fake_device(1)));
  forget_fake_races();
  CHECK(peers.all_reduce(values) == ncclSuccess);
  SECTION("what comes after it has to wait, for its bytes only") {
    arena.slice(0, 32, 64).add_(1);
    CHECK_THROWS_AS(arena.slice(0, 0, 32).add_(1), FakeDeviceRace);
    CHECK_THROWS_AS(values[1].add(1), FakeDeviceRace);
    wait(main, peers.streams[0]);
    arena.slice(0, 0, 32).add_(1);
  }
  SECTION("its end is after its beginning on all members") {
    // Work before the collective on member 1's stream has ended when the collective has on member 0's.
    const at::Tensor other = at::zeros({4}, at::device(fake_device(1)));
    wait(peers.streams[1], impl.getStream(fake_device(1)));
    peers.all_reduce(values);
    peers.streams[0].synchronize();
    const c10::StreamGuard in(impl.getStreamFromGlobalPool(fake_device(1)));
    CHECK(other.add(1).defined());
    CHECK(fake_races().empty());
  }
  wait_for_all();
  forget_fake_races();
}

TEST_CASE_METHOD(Fixture, "What no NCCL would take is refused") {
  Peers peers(nccl, 2);
  const auto values = peers.tensors([](int) { return floats({1, 2}); });
  const at::Tensor host = at::zeros({2});
  const auto all_reduce = [&](const void* data, std::size_t count, int op, std::size_t stream) {
    return peers.library.all_reduce(data, const_cast<void*>(data), count, ncclFloat32,
                                    static_cast<ncclRedOp_t>(op), peers.comms[0], peers.handle(stream));
  };
  CHECK(all_reduce(host.const_data_ptr(), 2, ncclSum, 0) == ncclInvalidArgument);
  CHECK(all_reduce(values[0].const_data_ptr(), 3, ncclSum, 0) == ncclInvalidArgument);
  CHECK(all_reduce(values[0].const_data_ptr(), 2, ncclSum, 1) == ncclInvalidArgument);
  CHECK(all_reduce(values[0].const_data_ptr(), 2, ncclProd, 0) == ncclInvalidArgument);
  CHECK(peers.together([&](std::size_t i) {
    void* const data = values[i].mutable_data_ptr();
    return peers.library.all_reduce(data, data, i + 1, ncclFloat32, ncclSum, peers.comms[i], peers.handle(i));
  }) == ncclInvalidUsage);
  CHECK_THAT(peers.library.get_last_error(peers.comms[0]), contains("1 float32") && contains("2 float32"));
  CHECK(peers.poll(1) == ncclInvalidUsage);
  nccl.set_wait_limit(0.05);
  MovingNccl lonely;
  lonely.set_wait_limit(0.05);
  ncclComm_t comm = nullptr;
  CHECK(lonely.library().comm_init_rank_config(&comm, 2, {}, 0, nullptr) == ncclInternalError);
}

TEST_CASE_METHOD(Fixture, "NCCL fails, hangs and reports errors as a test wants") {
  const int blocking = GENERATE(0, 1);
  Peers peers(nccl, 2, blocking);
  CHECK(peers.result == (blocking != 0 ? ncclSuccess : ncclInProgress));
  CHECK(peers.poll(0) == ncclSuccess);
  const auto values = peers.tensors([](int i) { return floats({1. + i}); });
  SECTION("fails") {
    nccl.fail_next("all_reduce", ncclSystemError);
    void* const data = values[0].mutable_data_ptr();
    CHECK(peers.library.all_reduce(data, data, 1, ncclFloat32, ncclSum, peers.comms[0], peers.handle(0)) ==
          ncclSystemError);
    CHECK(peers.all_reduce(values) == peers.result);
    CHECK(peers.read(values[0], 0).item<float>() == 3);
  }
  SECTION("reports") {
    nccl.report_async(ncclRemoteError);
    CHECK(peers.poll(1) == ncclRemoteError);
  }
  SECTION("hangs, until it is aborted") {
    nccl.hang_next();
    CHECK(peers.all_reduce(values) == peers.result);
    CHECK(peers.poll(0) == ncclSuccess);  // on the host it has ended
    CHECK_FALSE(peers.streams[0].query());
    CHECK_FALSE(peers.streams[1].query());
    CHECK(main.query());
    std::thread([&] { peers.library.comm_abort(peers.comms[0]); }).join();
    CHECK(peers.streams[0].query());
    CHECK_FALSE(peers.streams[1].query());
    peers.library.comm_abort(peers.comms[1]);
    CHECK(peers.read(values[1], 1).item<float>() == 2);
    void* const data = values[0].mutable_data_ptr();
    CHECK(peers.library.all_reduce(data, data, 1, ncclFloat32, ncclSum, peers.comms[0], peers.handle(0)) ==
          ncclInvalidArgument);
  }
  SECTION("closes") {
    for (const ncclComm_t comm : peers.comms) {
      CHECK(peers.library.comm_finalize(comm) == peers.result);
      CHECK(peers.library.comm_destroy(comm) == ncclSuccess);
    }
    CHECK(nccl.count("comm_destroy") == 2);
  }
}
