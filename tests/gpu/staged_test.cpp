#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/comm/staged_communicator.h"
#include "gpu/gpu_support.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

using test::kGpu;

/// Stands for the other ranks: every reduction doubles what it gets, what comes from others is a 5, and all
/// of it insists on host memory.
class Doubling final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 2; }
  std::string description() const override { return "doubling"; }
  bool overlaps() const override { return false; }
  at::Tensor allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) override {
    return SoloCommunicator().allocate(numel, dtype, device);
  }
  void all_reduce(const at::Tensor& tensor, ReduceOp) override {
    REQUIRE(tensor.is_cpu());
    tensor.mul_(2);
  }
  void reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp) override {
    REQUIRE((output.is_cpu() && input.is_cpu()));
    output.copy_(input.narrow(0, output.numel(), output.numel())).mul_(2);
  }
  void all_gather(const at::Tensor& output, const at::Tensor& input) override {
    REQUIRE((output.is_cpu() && input.is_cpu()));
    output.narrow(0, 0, input.numel()).fill_(5);
    output.narrow(0, input.numel(), input.numel()).copy_(input);
  }
  void broadcast(const at::Tensor& tensor, int) override {
    REQUIRE(tensor.is_cpu());
    tensor.fill_(5);
  }
  void send(const at::Tensor& tensor, int) override {
    REQUIRE(tensor.is_cpu());
    sent = tensor.clone();
  }
  void recv(const at::Tensor& tensor, int) override {
    REQUIRE(tensor.is_cpu());
    tensor.fill_(5);
  }
  void join() override {}
  std::unique_ptr<Communicator> split(int, int) override { return std::make_unique<Doubling>(); }

  at::Tensor sent;
};

TEST_CASE("staging carries GPU memory through host memory and back, in order with the stream", "[gpu]") {
  auto host = std::make_unique<Doubling>();
  const Doubling& doubling = *host;
  StagedCommunicator staged(std::move(host));
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kLong}) {
    CAPTURE(c10::toString(dtype));
    const at::TensorOptions options = at::TensorOptions(kGpu).dtype(dtype);
    const at::Tensor memory = staged.allocate(100000, dtype, kGpu);  // page-locked, one place
    REQUIRE(memory.is_cuda());
    for (int round = 1; round <= 3; ++round) {
      memory.fill_(round);
      staged.all_reduce(memory.narrow(0, 1000, 5000), ReduceOp::sum);
      CHECK(at::equal(memory.narrow(0, 1000, 5000), at::full({5000}, 2 * round, options)));
      CHECK(at::equal(memory.narrow(0, 6000, 94000), at::full({94000}, round, options)));
    }
    const at::Tensor other = at::ones({3, 7}, options);  // through the scratch buffer
    staged.all_reduce(other, ReduceOp::sum);
    CHECK(at::equal(other, at::full({3, 7}, 2, options)));
    staged.broadcast(other, 0);
    CHECK(at::equal(other, at::full({3, 7}, 5, options)));

    const at::Tensor whole = at::arange(10, options), share = at::empty({5}, options);
    staged.reduce_scatter(share, whole, ReduceOp::sum);
    CHECK(at::equal(share, at::arange(10, 20, 2, options)));
    CHECK(at::equal(whole, at::arange(10, options)));
    staged.all_gather(whole, whole.narrow(0, 5, 5));
    CHECK(at::equal(whole.narrow(0, 0, 5), at::full({5}, 5, options)));
    CHECK(at::equal(whole.narrow(0, 5, 5), at::arange(5, 10, options)));
    staged.send(share, 0);
    CHECK(at::equal(doubling.sent, share.cpu()));
    staged.recv(share, 0);
    CHECK(at::equal(share, at::full({5}, 5, options)));
    CHECK(staged.split(0, 0) != nullptr);
  }
}

}  // namespace
}  // namespace cxtrain
