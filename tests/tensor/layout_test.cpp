#include "cxtrain/tensor/layout.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>

#include "support/catch.h"

namespace cxtrain {
namespace {

/// A second device that every machine has: tensors without memory.
const at::Device kMeta{at::kMeta};

at::Tensor tensor(at::Device device, at::ScalarType dtype) {
  return at::empty({2}, at::TensorOptions().device(device).dtype(dtype));
}

TEST_CASE("tensors are grouped by device and dtype, in order") {
  const std::vector<at::Tensor> tensors{tensor(at::kCPU, at::kFloat),
                                        tensor(kMeta, at::kFloat),
                                        tensor(at::kCPU, at::kDouble),
                                        tensor(at::kCPU, at::kFloat),
                                        at::Tensor(),
                                        tensor(kMeta, at::kFloat)};
  std::vector<std::vector<std::size_t>> kinds;
  for_each_dtype_and_device(tensors, [&](at::TensorList kind) {
    kinds.emplace_back();
    for (const at::Tensor& member : kind) {
      std::size_t i = 0;
      while (!member.is_same(tensors[i])) ++i;
      kinds.back().push_back(i);
    }
  });
  CHECK(kinds == std::vector<std::vector<std::size_t>>{{0, 3}, {1, 5}, {2}});
}

TEST_CASE("tensors of one kind are handed on as they are, none not at all") {
  const std::vector<at::Tensor> tensors{tensor(at::kCPU, at::kFloat), tensor(at::kCPU, at::kFloat)};
  const at::Tensor* seen = nullptr;
  for_each_dtype_and_device(tensors, [&](at::TensorList kind) { seen = kind.data(); });
  CHECK(seen == tensors.data());
  for_each_dtype_and_device(std::vector<at::Tensor>(2),
                            [](at::TensorList) { FAIL("called without tensors"); });
  for_each_dtype_and_device({}, [](at::TensorList) { FAIL("called without tensors"); });
}

TEST_CASE("a gradient gets its parameter's strides, and stays as it is where it has them") {
  const at::Tensor parameter = at::empty({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor alike = at::empty_like(parameter), rows = at::arange(120.f).view({2, 3, 4, 5});
  CHECK(laid_out_like(parameter, alike).is_same(alike));
  const at::Tensor moved = laid_out_like(parameter, rows);
  CHECK(moved.strides() == parameter.strides());
  CHECK(at::equal(moved, rows));
}

}  // namespace
}  // namespace cxtrain
