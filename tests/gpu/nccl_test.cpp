#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "gpu/gpu_support.h"
#include "support/catch.h"
#include "support/reduce_op_name.h"

namespace cxtrain {
namespace {

using test::contains;
using test::kGpu;

TEST_CASE("NCCL with one rank gives back what it was given, in every type and operation", "[gpu]") {
  SoloWorld world;
  const std::unique_ptr<Communicator> made = open_accelerator().connect(world, kGpu);
  Communicator& nccl = *made;
  CHECK_THAT(nccl.description(), contains("NCCL 2."));
  CHECK(nccl.overlaps());
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
      CAPTURE(c10::toString(dtype), test::name_of(op));
      const at::Tensor memory = nccl.allocate(1000, dtype, kGpu);
      CHECK(memory.count_nonzero().item<std::int64_t>() == 0);
      const at::Tensor expected = at::arange(1000, at::kLong).remainder(100).to(kGpu, dtype);
      memory.copy_(expected);
      nccl.all_reduce(memory, op);
      nccl.join();
      CHECK(at::equal(memory, expected));
    }
  }
  const at::Tensor flags = at::ones({5}, at::TensorOptions(kGpu).dtype(at::kBool));
  nccl.broadcast(flags, 0);
  nccl.join();
  CHECK(flags.all().item<bool>());
}

TEST_CASE("with one rank a share is the whole, apart and in place, also in a part of NCCL's ranks", "[gpu]") {
  SoloWorld world;
  const std::unique_ptr<Communicator> made = open_accelerator().connect(world, kGpu);
  Communicator& nccl = *made;
  CHECK(nccl.split(-1, 0) == nullptr);
  const std::unique_ptr<Communicator> part = nccl.split(3, 1);
  REQUIRE(part != nullptr);
  CHECK(part->size() == 1);
  CHECK(part->rank() == 0);
  for (Communicator* communicator : {static_cast<Communicator*>(&nccl), part.get()}) {
    const at::Tensor values = at::arange(1000, at::kFloat).to(kGpu), other = at::zeros({1000}, kGpu);
    communicator->reduce_scatter(other, values, ReduceOp::avg);
    communicator->join();
    CHECK(at::equal(other, values));
    communicator->reduce_scatter(values, values, ReduceOp::sum);
    communicator->join();
    CHECK(at::equal(other, values));
    const at::Tensor flags = values.gt(500), gathered = at::zeros_like(flags);
    communicator->all_gather(gathered, flags);
    communicator->join();
    CHECK(at::equal(gathered, flags));
    CHECK_THROWS_AS(communicator->send(values, 0), CommunicationError);
  }
}

TEST_CASE("NCCL refuses tensors elsewhere, with gaps, or of types that it has not", "[gpu]") {
  SoloWorld world;
  const std::unique_ptr<Communicator> made = open_accelerator().connect(world, kGpu);
  Communicator& nccl = *made;
  CHECK_THROWS_AS(nccl.all_reduce(at::zeros({4}), ReduceOp::sum), CommunicationError);
  CHECK_THROWS_AS(nccl.all_reduce(at::zeros({4, 4}, kGpu).slice(1, 0, 2), ReduceOp::sum), CommunicationError);
  CHECK_THROWS_AS(nccl.all_reduce(at::zeros({4}, at::TensorOptions(kGpu).dtype(at::kBool)), ReduceOp::sum),
                  CommunicationError);
}

TEST_CASE("the GPU's UUID is the one that the driver tells", "[gpu]") {
  const std::vector<Gpu> gpus = read_gpus_from_nvml();
  REQUIRE_FALSE(gpus.empty());
  const std::string uuid = open_accelerator().uuid(kGpu);
  CAPTURE(uuid);
  CHECK(std::any_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.uuid == uuid; }));
}

TEST_CASE("a rank touches one GPU only", "[gpu]") {
  const int visible = c10::cuda::device_count();
  const std::vector<Gpu> before = read_gpus_from_nvml();
  {
    SoloWorld world;
    const std::unique_ptr<Communicator> made = open_accelerator().connect(world, kGpu);
    Communicator& nccl = *made;
    const at::Tensor memory = at::ones({std::int64_t{64} << 20}, kGpu);  // 256 MiB
    nccl.all_reduce(memory, ReduceOp::sum);
    nccl.join();
    CHECK(memory.sum().item<float>() == static_cast<float>(std::int64_t{64} << 20));
    for (int other = 1; other < visible; ++other) {
      CAPTURE(other);
      CHECK_FALSE(c10::cuda::hasPrimaryContext(static_cast<c10::DeviceIndex>(other)));
    }
    const std::string mine = open_accelerator().uuid(kGpu);
    const std::vector<Gpu> during = read_gpus_from_nvml();
    REQUIRE(during.size() == before.size());
    for (std::size_t i = 0; i < during.size(); ++i) {
      if (during[i].uuid == mine) continue;
      CAPTURE(during[i].index);
      CHECK(during[i].memory_used_mib.value_or(0) - before[i].memory_used_mib.value_or(0) < 64);
    }
  }
  if (visible == 1) test::skip("this machine shows one GPU, so there is no other one to leave alone");
}

}  // namespace
}  // namespace cxtrain
