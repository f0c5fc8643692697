#include "cxtrain/tensor/norms.h"

#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/randn.h>

#include <limits>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("norms of chunks are the same bits whether they are taken of the whole or of parts") {
  at::manual_seed(1);
  const double order = GENERATE(1.0, 2.0, 3.5, std::numeric_limits<double>::infinity());
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16);
  const std::int64_t size = GENERATE(1, 255, 256, 257, 1024, 100003);
  const at::Tensor whole = at::randn({size}).to(dtype);
  const at::Tensor expected = chunk_norms(whole, order);
  for (const std::int64_t chunks : {1, 2, 7}) {
    std::vector<at::Tensor> parts;
    for (std::int64_t begin = 0; begin < size; begin += chunks * kNormChunk)
      parts.push_back(chunk_norms(whole.slice(0, begin, begin + chunks * kNormChunk), order));
    CHECK(at::equal(at::cat(parts), expected));
  }
}

TEST_CASE("norms are those of the tensors, and of all of them together") {
  at::manual_seed(2);
  const std::vector<at::Tensor> tensors{at::randn({3, 5}), at::Tensor(), at::randn({1000, 7}).to(at::kHalf),
                                        at::randn({0}), at::randn({900}, at::kDouble)};
  for (const double order : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    const std::vector<at::Tensor> found = norms(tensors, order);
    std::vector<at::Tensor> flat;
    REQUIRE(found.size() == tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      REQUIRE(found[i].defined() == tensors[i].defined());
      if (!tensors[i].defined() || tensors[i].numel() == 0) continue;
      flat.push_back(tensors[i].flatten().to(at::kDouble));
      CHECK(found[i].item<double>() ==
            Catch::Approx(at::linalg_vector_norm(flat.back(), order).item<double>()));
    }
    CHECK(total_norm(found, order).item<double>() ==
          Catch::Approx(at::linalg_vector_norm(at::cat(flat), order).item<double>()));
  }
  CHECK(total_norm({at::Tensor()}, 2).item<double>() == 0);
  // Squares that a half cannot hold.
  CHECK(norms(std::vector{at::full({4}, 30000.0, at::kHalf)}, 2)[0].item<double>() == 60000);
}

}  // namespace
}  // namespace cxtrain
