#include "cxtrain/reduce/tensor_sync.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>

#include "support/catch.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

/// Another value on each rank and at each call.
at::Tensor numbers(at::IntArrayRef shape, at::ScalarType dtype) {
  const at::Tensor values = at::randint(0, 100, shape);
  return dtype == at::kBool ? values.gt(50) : values.to(dtype);
}

TEST_CASE("every rank gets rank 0's tensors, whatever their dtypes, sizes and strides") {
  at::manual_seed(test_world().rank());
  std::vector<NamedTensor> tensors;
  for (int round = 0; round < 2; ++round) {
    for (const at::ScalarType dtype : {at::kBool, at::kLong, at::kBFloat16, at::kFloat, at::kByte,
                                       at::kDouble, at::kComplexDouble, at::kHalf, at::kInt}) {
      for (const std::vector<std::int64_t>& shape :
           {std::vector<std::int64_t>{}, {1}, {7}, {3, 5}, {0, 2}, {2, 3, 4, 5}})
        tensors.push_back({"plain", numbers(shape, dtype)});
      tensors.push_back({"transposed", numbers({3, 7}, dtype).t()});
      tensors.push_back({"gappy", numbers({6, 3}, dtype).slice(0, 0, 6, 2)});
    }
  }
  HostCommunicator ranks = test::host_communicator();
  const auto agree = [&] {
    bool same = true;
    for (const NamedTensor& named : tensors) {
      const at::Tensor first = named.tensor.contiguous().clone();
      ranks.broadcast(first, 0);
      same = same && at::equal(first, named.tensor);
    }
    return same;
  };
  std::vector<at::Tensor> before;
  for (const NamedTensor& named : tensors) before.push_back(named.tensor.clone());
  TensorSync sync(tensors, ranks);
  sync.broadcast();
  CHECK(agree());
  for (std::size_t i = 0; i < tensors.size() && test_world().is_root(); ++i)
    CHECK(at::equal(tensors[i].tensor, before[i]));
  for (const NamedTensor& named : tensors)
    named.tensor.copy_(numbers(named.tensor.sizes(), named.tensor.scalar_type()));
  CHECK(agree() == test_world().is_root());
  sync.broadcast();
  CHECK(agree());
}

}  // namespace
}  // namespace cxtrain
