#include "cxtrain/comm/staged_communicator.h"

#include <ATen/ATen.h>

#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

/// Ranks that share a device, whose memory goes by way of the host's.
namespace cxtrain {
namespace {

struct SharedDevice : test::TwoFakeDevices {
  /// Another value for each rank, made on the device by work that has just been submitted.
  at::Tensor values(std::int64_t numel, double more = 0) const {
    return at::full({numel}, rank + more, at::TensorOptions().device(device)) + 1;
  }
  /// Is used on the device at once, and again by the next collective.
  static bool reads(const at::Tensor& tensor, const at::Tensor& expected) {
    const at::Tensor found = tensor * 2;
    tensor.fill_(-1);
    return at::equal(found.cpu(), expected * 2);
  }

  HostCommunicator host = test::host_communicator();
  test::FakeNcclAccelerator accelerator{test::kFakeDevices, host};
  StagedCommunicator between{std::make_unique<HostCommunicator>(test_world()), &accelerator};
  const int rank = between.rank(), size = between.size();
  const double sum = size * (size + 1) / 2.;
};

TEST_CASE_METHOD(SharedDevice,
                 "staged collectives stand in the order of the stream that they are called on") {
  const at::Tensor own_memory = between.allocate(5, at::kFloat, device);
  for (const c10::Stream stream : {main, side_stream()}) {
    wait(stream, main);
    const c10::StreamGuard in(stream);
    for (int round = 0; round < 2; ++round) {
      for (const at::Tensor& tensor : {values(5), own_memory}) {
        tensor.copy_(values(5));
        between.all_reduce(tensor, ReduceOp::sum);
        CHECK(reads(tensor, at::full({5}, sum)));
        tensor.copy_(values(5, round));
        between.broadcast(tensor, size - 1);
        CHECK(reads(tensor, at::full({5}, size + round, at::kFloat)));
      }
      // One right after the other: the host's memory is used again.
      const at::Tensor first = values(6), second = values(6, 10), third = values(6, 20);
      between.all_reduce(first, ReduceOp::sum);
      between.broadcast(second, 0);
      between.broadcast(third, 0);
      CHECK(reads(first, at::full({6}, sum)));
      CHECK(reads(second, at::full({6}, 11, at::kFloat)));
      CHECK(reads(third, at::full({6}, 21, at::kFloat)));
      const at::Tensor gathered = at::full({3 * size}, 0., own_memory.options());
      between.all_gather(gathered, values(3));
      CHECK(reads(gathered, (at::arange(size, at::kFloat) + 1).repeat_interleave(3)));
      const at::Tensor share = at::full({2}, 0., own_memory.options());
      between.reduce_scatter(share, values(2 * size), ReduceOp::sum);
      CHECK(reads(share, at::full({2}, sum)));
      if (rank > 0) between.send(values(4), rank - 1);
      if (rank + 1 < size) {
        const at::Tensor received = at::full({4}, 0., own_memory.options());
        between.recv(received, rank + 1);
        CHECK(reads(received, at::full({4}, rank + 2, at::kFloat)));
      }
    }
    wait(main, stream);
  }
}

}  // namespace
}  // namespace cxtrain
