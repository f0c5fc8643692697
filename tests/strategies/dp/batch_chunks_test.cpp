#include "strategies/dp/batch_chunks.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/sequences.h"

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

TEST_CASE("an object is divided by its class, or rejected") {
  const auto batch_of = [](const Dataset& dataset) {
    const std::vector<std::int64_t> indices{3, 0, 1, 2, 3};
    Batch batch;
    collate_samples(dataset, indices, {}, batch);
    return batch;
  };
  const Batch divisible = batch_of(test::SequenceData<test::DivisibleSequences>(4));
  const std::vector<Batch> chunks = chunk_batch(divisible, 2);
  REQUIRE(chunks.size() == 2);
  at::Tensor sums =
      at::cat({chunks[0].object<test::Sequences>().sums(), chunks[1].object<test::Sequences>().sums()});
  CHECK(chunks[1].object<test::Sequences>().size() == 2);
  CHECK(at::equal(sums, divisible.object<test::Sequences>().sums()));

  const Batch whole = batch_of(test::SequenceData<>(4));
  CHECK(chunk_batch(whole, 1)[0].objects[0].value == whole.objects[0].value);
  const std::string message = test::error_of<ConfigError>([&] { chunk_batch(whole, 2); });
  CHECK_THAT(message, test::contains("Sequences cannot be divided"));
  CHECK_THAT(message, test::contains("BatchObject::narrow"));

  struct OneTooMany final : test::Sequences {
    using Sequences::Sequences;
    std::shared_ptr<BatchObject> narrow(std::int64_t, std::int64_t) const override {
      return std::make_shared<Sequences>(*this);
    }
  };
  Batch wrong;
  wrong.size = 3;
  wrong.objects = {{std::make_shared<OneTooMany>(at::zeros({3, 6}), at::ones({3}, at::kLong))}};
  CHECK_THAT(test::error_of<DataError>([&] { chunk_batch(wrong, 2); }),
             test::contains("narrow(0, 2) returns an object of 3 samples"));
}

}  // namespace
}  // namespace cxtrain
