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

/// Stands for the other ranks: every collective doubles what it gets, and insists on host memory.
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
  void broadcast(const at::Tensor& tensor, int) override {
    REQUIRE(tensor.is_cpu());
    tensor.fill_(5);
  }
  void join() override {}
};

TEST_CASE("staging carries GPU memory through host memory and back, in order with the stream", "[gpu]") {
  StagedCommunicator staged(std::make_unique<Doubling>());
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
  }
}

}  // namespace
}  // namespace cxtrain
