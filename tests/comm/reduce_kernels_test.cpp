#include "cxtrain/comm/reduce_kernels.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <span>
#include <vector>

#include "cxtrain/base/error.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

std::vector<const std::byte*> sources(const std::vector<at::Tensor>& tensors) {
  std::vector<const std::byte*> pointers;
  for (const auto& tensor : tensors)
    pointers.push_back(static_cast<const std::byte*>(tensor.const_data_ptr()));
  return pointers;
}

std::vector<std::byte*> destinations(const std::vector<at::Tensor>& tensors) {
  std::vector<std::byte*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(static_cast<std::byte*>(tensor.mutable_data_ptr()));
  return pointers;
}

TEST_CASE("reduce_elements sums in place what ATen sums, for every dtype, length and number of ranks") {
  const at::ScalarType dtype =
      GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kByte);
  const int ranks = GENERATE(1, 2, 3, 5);
  const std::int64_t count = GENERATE(1, 7, 64, 2047, 2049, 10000);
  CAPTURE(c10::toString(dtype), ranks, count);
  std::vector<at::Tensor> inputs;
  at::Tensor expected;
  for (int rank = 0; rank < ranks; ++rank) {
    // Small whole numbers: their sums are exact in every dtype.
    inputs.push_back(at::randint(0, 9, {count}).to(dtype));
    expected = expected.defined() ? expected.add(inputs.back()) : inputs.back().clone();
  }
  reduce_elements(dtype, ReduceOp::sum, sources(inputs), destinations(inputs),
                  static_cast<std::size_t>(count), 1);
  for (const at::Tensor& result : inputs) CHECK(at::equal(result, expected));
}

TEST_CASE("a sum has the bits of a sum of sums over equal powers of two of its sources") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  constexpr std::size_t kCount = 3000;
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < 12; ++rank)
    inputs.push_back(at::randn({static_cast<std::int64_t>(kCount)}).to(dtype));
  const auto sum_of = [&](std::span<const at::Tensor> parts) {
    std::vector<at::Tensor> out{at::empty({static_cast<std::int64_t>(kCount)}, dtype)};
    reduce_elements(dtype, ReduceOp::sum, sources({parts.begin(), parts.end()}), destinations(out), kCount,
                    1);
    return out[0];
  };
  const at::Tensor expected = sum_of(inputs);
  for (const std::size_t per_node : {1, 2, 4}) {
    std::vector<at::Tensor> of_nodes;
    for (std::size_t first = 0; first < inputs.size(); first += per_node)
      of_nodes.push_back(sum_of(std::span(inputs).subspan(first, per_node)));
    CHECK(at::equal(sum_of(of_nodes), expected));
  }
}

TEST_CASE("reduce_elements takes minimum, maximum and mean") {
  const at::Tensor a = at::full({5000}, 6.0f), b = at::full({5000}, -2.0f);
  for (const auto& [op, divisor, value] :
       {std::tuple{ReduceOp::min, 1, -2.0}, {ReduceOp::max, 1, 6.0}, {ReduceOp::avg, 2, 2.0}}) {
    std::vector<at::Tensor> out{at::empty({5000})};
    reduce_elements(at::kFloat, op, sources({a, b}), destinations(out), 5000, divisor);
    CHECK(at::equal(out[0], at::full({5000}, value, at::kFloat)));
  }
}

TEST_CASE("the mean of bytes has any divisor") {
  const at::Tensor value = at::full({3}, 200, at::kByte);
  for (const auto& [divisor, expected] : {std::pair{3, 66}, std::pair{256, 0}, std::pair{300, 0}}) {
    std::vector<at::Tensor> mean{at::empty({3}, at::kByte)};
    reduce_elements(at::kByte, ReduceOp::avg, sources({value}), destinations(mean), 3, divisor);
    CHECK(at::equal(mean[0], at::full({3}, expected, at::kByte)));
  }
}

TEST_CASE("16-bit sums round once") {
  const at::ScalarType dtype = GENERATE(at::kBFloat16, at::kHalf);
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < 4; ++rank) inputs.push_back(at::randn({3000}).to(dtype));
  const auto exactly = [&](std::size_t rank) { return inputs[rank].to(at::kFloat); };
  const at::Tensor exact = exactly(0).add(exactly(1)).add(exactly(2).add(exactly(3)));
  std::vector<at::Tensor> out{at::empty({3000}, dtype)};
  reduce_elements(dtype, ReduceOp::avg, sources(inputs), destinations(out), 3000, 4);
  CHECK(at::equal(out[0], exact.mul(0.25).to(dtype)));
}

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

TEST_CASE("elements are rounded to bfloat16 as ATen rounds them, and come back exactly") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const at::Tensor values = at::randn({5001}).to(dtype);
  at::Tensor rounded = at::empty({5001}, at::kBFloat16), back = at::empty({5001}, dtype);
  round_to_bfloat16(dtype, bytes_of(values), bytes_of(rounded), 5001);
  CHECK(at::equal(rounded, values.to(at::kFloat).to(at::kBFloat16)));
  widen_bfloat16(dtype, bytes_of(rounded), bytes_of(back), 5001);
  CHECK(at::equal(back, rounded.to(dtype)));
  CHECK_THROWS_WITH(round_to_bfloat16(at::kInt, bytes_of(values), bytes_of(rounded), 1),
                    cxtrain::test::contains("Int"));
}

/// The values after a way through blocks.
at::Tensor through_blocks(const at::Tensor& values) {
  const auto count = static_cast<std::size_t>(values.numel());
  std::vector<std::byte> blocks(ScaledHalf::blocks(count) * ScaledHalf::kBytes);
  round_to_scaled(values.scalar_type(), bytes_of(values), blocks.data(), count);
  at::Tensor back = at::empty_like(values);
  widen_scaled(values.scalar_type(), blocks.data(), bytes_of(back), count);
  return back;
}

TEST_CASE("blocks of float16 keep 11 bits of values of any size, and what is no number") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble);
  const double size = GENERATE(1e-38, 1e-30, 1e-7, 1.0, 7e4, 1e20, 1e38);
  const std::int64_t count = GENERATE(1, 62, 63, 64, 5001);
  CAPTURE(dtype, size, count);
  const at::Tensor values = at::rand({count}).add(0.5).mul(size).to(dtype);
  const at::Tensor error = through_blocks(values).sub(values).abs().div(values);
  CHECK(error.max().item<double>() <= std::ldexp(1.0, -11) * (1 + 1e-6));
  CHECK(at::equal(through_blocks(values.neg()), through_blocks(values).neg()));

  at::Tensor special = values.clone();
  special[0] = std::numeric_limits<double>::infinity();
  if (count > 1) special[1] = std::numeric_limits<double>::quiet_NaN();
  const at::Tensor back = through_blocks(special);
  CHECK(back[0].isinf().item<bool>());
  if (count > 1) CHECK(back[1].isnan().item<bool>());
  if (count > 2) CHECK(at::equal(back.slice(0, 2), through_blocks(values).slice(0, 2)));
}

TEST_CASE("sums of blocks are rounded once, to a power of two of their own") {
  constexpr std::int64_t kValues = 40 * ScaledHalf::kValues;
  std::vector<at::Tensor> inputs;
  std::vector<std::vector<std::byte>> blocks;
  std::vector<const std::byte*> sources;
  for (const double size : {1e-3, 7e4, 1.0}) {
    inputs.push_back(through_blocks(at::randn({kValues}).mul(size)));
    blocks.emplace_back(40 * ScaledHalf::kBytes);
    round_to_scaled(at::kFloat, bytes_of(inputs.back()), blocks.back().data(), kValues);
  }
  for (const std::vector<std::byte>& each : blocks) sources.push_back(each.data());
  reduce_scaled(ReduceOp::avg, sources, blocks[0].data(), 40, 3);
  at::Tensor result = at::empty({kValues});
  widen_scaled(at::kFloat, blocks[0].data(), bytes_of(result), kValues);
  const at::Tensor exact = inputs[0].add(inputs[1]).add(inputs[2]).mul(1.0F / 3.0F);
  CHECK(at::equal(result, through_blocks(exact)));
}

TEST_CASE("infinities and NaNs survive a 16-bit sum, as an overflow check needs") {
  const at::ScalarType dtype = GENERATE(at::kBFloat16, at::kHalf, at::kFloat);
  const double special =
      GENERATE(std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN());
  std::vector<at::Tensor> inputs{at::full({100}, 1.0).to(dtype), at::full({100}, special).to(dtype)};
  reduce_elements(dtype, ReduceOp::avg, sources(inputs), destinations(inputs), 100, 2);
  CHECK_FALSE(inputs[0].isfinite().any().item<bool>());
}

TEST_CASE("a dtype without a kernel is refused by name") {
  const at::Tensor flags = at::full({4}, true, at::kBool);
  CHECK_THROWS_WITH(reduce_elements(at::kBool, ReduceOp::sum, sources({flags}), destinations({flags}), 4, 1),
                    cxtrain::test::contains("Bool") && cxtrain::test::contains("float32"));
}

}  // namespace
}  // namespace cxtrain
