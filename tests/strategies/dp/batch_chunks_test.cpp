#include "strategies/dp/batch_chunks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "support/catch.h"

namespace cxtrain {
namespace {

TEST_CASE("a batch is cut as torch.chunk cuts it") {
  for (std::int64_t samples = 1; samples <= 20; ++samples) {
    for (std::int64_t parts = 1; parts <= 5; ++parts) {
      CAPTURE(samples, parts);
      Batch batch;
      batch.tensors = {at::arange(samples * 3).view({samples, 3}), at::arange(samples)};
      batch.size = samples;
      const std::vector<Batch> chunks = chunk_batch(batch, static_cast<std::size_t>(parts));
      const std::vector<at::Tensor> expected = at::chunk(batch[0], parts);
      REQUIRE(chunks.size() == expected.size());
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        CHECK(at::equal(chunks[i][0], expected[i]));
        CHECK(chunks[i][1].size(0) == chunks[i].size);
        CHECK(chunks[i][0].is_alias_of(batch[0]));
      }
    }
  }
}

TEST_CASE("what has no row for each sample is in every chunk as a whole") {
  Batch batch;
  batch.tensors = {at::ones({4, 2}), at::ones({7}), at::ones({})};
  batch.size = 4;
  for (const Batch& chunk : chunk_batch(batch, 2)) {
    CHECK(chunk[0].size(0) == 2);
    CHECK(chunk[1].is_same(batch[1]));
    CHECK(chunk[2].is_same(batch[2]));
  }
  batch.tensors = {at::ones({0, 2})};
  batch.size = 0;
  CHECK(chunk_batch(batch, 2).empty());
}

}  // namespace
}  // namespace cxtrain
