#include "cxtrain/checkpoint/compare_weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>

#include "support/catch.h"

namespace cxtrain::test {
namespace {

StoredWeights one_tensor(const at::Tensor& tensor, const std::string& name = "a") {
  return {"here",
          "memory",
          {{name, tensor.scalar_type(), tensor.sizes().vec(), [tensor] { return tensor; }}},
          {}};
}

WeightsDifference compare(const at::Tensor& a, const at::Tensor& b) {
  return compare_weights(one_tensor(a), one_tensor(b));
}

TEST_CASE("equal weights have no difference") {
  CHECK(compare(at::arange(6).view({2, 3}), at::arange(6).view({2, 3})).equal());
  CHECK(compare(at::empty({0, 3}), at::empty({0, 3})).equal());
  const at::Tensor nan = at::full({2}, std::numeric_limits<double>::quiet_NaN());
  CHECK(compare(nan, nan.clone()).equal());
  for (const at::ScalarType dtype :
       {at::kHalf, at::kUInt64, at::kFloat8_e4m3fn, at::kComplexDouble, at::kBool}) {
    const at::Tensor zeros = at::zeros({3}, at::TensorOptions(dtype));
    CHECK(compare(zeros, zeros.clone()).equal());
  }
}

TEST_CASE("names that only one has are told") {
  const WeightsDifference found =
      compare_weights(one_tensor(at::arange(2), "x"), one_tensor(at::arange(2), "y"));
  CHECK(found.only_first == std::vector<std::string>{"x"});
  CHECK(found.only_second == std::vector<std::string>{"y"});
  CHECK_FALSE(found.equal());
}

TEST_CASE("the first and the largest difference of two tensors are found") {
  at::Tensor a = at::zeros({2, 3}), b = a.clone();
  b[0][2] = 0.5;
  b[1][1] = -2;
  const WeightsDifference found = compare(a, b);
  REQUIRE(found.tensors.size() == 1);
  const TensorDifference& difference = found.tensors[0];
  CHECK(difference.name == "a");
  CHECK(difference.first == "float32 [2, 3]");
  CHECK(difference.elements == 2);
  CHECK(difference.largest == 2);
  CHECK(difference.at == std::vector<std::int64_t>{0, 2});
  CHECK(difference.first_value == 0);
  CHECK(difference.second_value == 0.5);
}

TEST_CASE("bits count where dtypes agree, values where they do not") {
  const WeightsDifference signs = compare(at::full({1}, 0.0), at::full({1}, -0.0));
  REQUIRE(signs.tensors.size() == 1);
  CHECK(signs.tensors[0].elements == 1);
  CHECK(signs.tensors[0].largest == 0);

  const WeightsDifference dtypes = compare(at::full({2}, 0.5), at::full({2}, 0.5, at::kHalf));
  REQUIRE(dtypes.tensors.size() == 1);
  CHECK(dtypes.tensors[0].elements == 0);
  CHECK(dtypes.tensors[0].first == "float32 [2]");
  CHECK(dtypes.tensors[0].second == "float16 [2]");

  const WeightsDifference shapes = compare(at::zeros({2, 3}), at::zeros({3, 2}));
  REQUIRE(shapes.tensors.size() == 1);
  CHECK(shapes.tensors[0].elements == 0);
  CHECK(shapes.tensors[0].at.empty());

  const at::Tensor huge = at::full({1}, std::int64_t{1} << 60, at::kLong);
  CHECK(compare(huge, huge + 1).tensors.at(0).elements == 1);
  const at::Tensor turn = at::full({2}, c10::complex<double>(0, 1), at::kComplexDouble);
  CHECK(compare(turn, turn * 2).tensors.at(0).elements == 2);
  CHECK(compare(turn, turn * 2).tensors.at(0).largest == 1);
  const at::Tensor nan = at::full({1}, std::numeric_limits<double>::quiet_NaN());
  CHECK(std::isnan(compare(at::zeros({1}), nan).tensors.at(0).largest));
}

TEST_CASE("a scalar differs at no index") {
  const WeightsDifference found = compare(at::full({}, 1), at::full({}, 2));
  REQUIRE(found.tensors.size() == 1);
  CHECK(found.tensors[0].at.empty());
  CHECK(found.tensors[0].elements == 1);
}

}  // namespace
}  // namespace cxtrain::test
