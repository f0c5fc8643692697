#include <ATen/ATen.h>

#include "fixture.h"
#include "support/fake_device/moving_nccl.h"
#include "support/host_communicator.h"

using namespace cxtrain::test;

namespace {

/// This rank's member of a communicator over all ranks, on its second fake device.
struct Member : TwoFakeDevices {
  Member() {
    ncclUniqueId id{};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    REQUIRE(library.comm_init_rank_config(&comm, size, id, rank, &config) == ncclSuccess);
  }

  at::Tensor on_stream(const at::Tensor& values) const {
    const c10::StreamGuard in(stream);
    return values.to(fake_device(1));
  }
  at::Tensor read(const at::Tensor& tensor) const {
    const c10::StreamGuard in(stream);
    return tensor.cpu();
  }

  cxtrain::HostCommunicator ranks = host_communicator();
  const int rank = ranks.rank(), size = ranks.size();
  MovingNccl nccl{ranks};
  cxtrain::NcclLibrary library = nccl.library();
  ncclComm_t comm = nullptr;
  c10::Stream stream = impl.getStreamFromGlobalPool(fake_device(1), true);
  cudaStream_t handle = static_cast<cudaStream_t>(stream.native_handle());
};

at::Tensor of_rank(int rank) { return at::arange(4, at::kFloat) + 10. * rank; }

}  // namespace

TEST_CASE_METHOD(Member, "Collectives move bytes of fake devices between ranks") {
  const at::Tensor values = on_stream(of_rank(rank));
  void* const data = values.mutable_data_ptr();
  at::Tensor sum = at::zeros({4});
  std::vector<at::Tensor> every;
  for (int i = 0; i < size; ++i) {
    sum = sum + of_rank(i);
    every.push_back(of_rank(i));
  }
  SECTION("all_reduce") {
    CHECK(library.all_reduce(data, data, 4, ncclFloat32, ncclSum, comm, handle) == ncclSuccess);
    CHECK(read(values).equal(sum));
    CHECK(library.all_reduce(data, data, 4, ncclFloat32, ncclMax, comm, handle) == ncclSuccess);
    CHECK(read(values).equal(sum));
  }
  SECTION("reduce") {
    library.reduce(data, data, 4, ncclFloat32, ncclSum, size - 1, comm, handle);
    CHECK(read(values).equal(rank == size - 1 ? sum : of_rank(rank)));
  }
  SECTION("broadcast") {
    library.broadcast(data, data, 16, ncclUint8, size - 1, comm, handle);
    CHECK(read(values).equal(of_rank(size - 1)));
  }
  SECTION("all_gather and reduce_scatter") {
    const at::Tensor all = on_stream(at::zeros({4 * size})), share = on_stream(at::zeros({4}));
    library.all_gather(data, all.mutable_data_ptr(), 4, ncclFloat32, comm, handle);
    CHECK(read(all).equal(at::cat(every)));
    library.reduce_scatter(all.mutable_data_ptr(), share.mutable_data_ptr(), 4, ncclFloat32, ncclSum, comm,
                           handle);
    CHECK(read(share).equal(of_rank(rank) * size));
  }
  SECTION("send and recv, as a group, to the next rank and from the one before") {
    if (size == 1) return;
    const at::Tensor received = on_stream(at::zeros({4}));
    library.group_start();
    library.send(data, 4, ncclFloat32, (rank + 1) % size, comm, handle);
    library.recv(received.mutable_data_ptr(), 4, ncclFloat32, (rank + size - 1) % size, comm, handle);
    CHECK(library.group_end() == ncclSuccess);
    CHECK(read(received).equal(of_rank((rank + size - 1) % size)));
  }
  SECTION("split") {
    ncclComm_t part = nullptr;
    library.comm_split(comm, rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, -rank, &part, nullptr);
    CHECK((part == nullptr) == (rank == 0));
    if (part == nullptr) return;
    int part_rank = -1, part_size = -1;
    library.comm_user_rank(part, &part_rank);
    library.comm_count(part, &part_size);
    CHECK(part_rank == size - 1 - rank);
    CHECK(part_size == size - 1);
    library.all_reduce(data, data, 4, ncclFloat32, ncclSum, part, handle);
    CHECK(read(values).equal(sum - of_rank(0)));
  }
}

TEST_CASE_METHOD(Member, "A collective between ranks is an operation of this rank's stream") {
  const at::Tensor values = at::zeros({4}, at::device(fake_device(1)));  // on the default stream
  void* const data = values.mutable_data_ptr();
  CHECK_THROWS_AS(library.all_reduce(data, data, 4, ncclFloat32, ncclSum, comm, handle), FakeDeviceRace);
  forget_fake_races();
  wait(stream, impl.getStream(fake_device(1)));
  CHECK(library.all_reduce(data, data, 4, ncclFloat32, ncclSum, comm, handle) == ncclSuccess);
  CHECK_THROWS_AS(values.add_(1), FakeDeviceRace);
  forget_fake_races();
  wait_for_all();
}
