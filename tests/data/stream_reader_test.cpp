#include "cxtrain/data/stream_reader.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_loader.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/state_difference.h"

namespace cxtrain {
namespace {

/// The numbers from 100 * epoch on.
class Counted final : public StreamDataset {
 public:
  explicit Counted(std::int64_t size, bool saves = true) : size_(size), saves_(saves) {}
  std::unique_ptr<Stream> open(const StreamContext& context) const override {
    return std::make_unique<Shard>(100 * context.epoch, size_, saves_);
  }

 private:
  class Shard final : public Stream {
   public:
    Shard(std::int64_t first, std::int64_t size, bool saves) : first_(first), size_(size), saves_(saves) {}
    bool next(Batch& sample) override {
      if (read_ == size_) return false;
      sample = {{at::scalar_tensor(first_ + read_++, at::kLong)}};
      return true;
    }
    void save(StateDict& state) const override {
      if (saves_) state.set("read", read_);
    }
    void load(const StateDict& state) override { read_ = state.integer("read"); }

   private:
    std::int64_t first_, size_, read_ = 0;
    bool saves_;
  };
  std::int64_t size_;
  bool saves_;
};

DataLoader loader_of(std::shared_ptr<const StreamDataset> stream, int workers = 0, bool drop_last = false) {
  return DataLoader(std::make_unique<StreamReader>(std::move(stream), 4, drop_last), {.shard = {1, 3}},
                    {.num_workers = workers});
}

using Numbers = std::vector<std::int64_t>;

Numbers numbers_of(const Batch& batch) {
  const auto* data = batch[0].const_data_ptr<std::int64_t>();
  return {data, data + batch.size};
}

std::vector<Numbers> rest_of(DataLoader& loader) {
  std::vector<Numbers> all;
  for (Batch batch; loader.next(batch);) all.push_back(numbers_of(batch));
  return all;
}

TEST_CASE("a loader of a stream reads each epoch's stream to its end") {
  const int workers = GENERATE(0, 1, 3);
  DataLoader loader = loader_of(std::make_shared<Counted>(10), workers);
  CHECK(loader.is_stream());
  CHECK(loader.num_batches() == kUnknownBatches);
  CHECK(loader.global_batch_size() == 12);
  loader.start_epoch(0);
  CHECK(rest_of(loader) == std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9}});
  Batch batch;
  CHECK_FALSE(loader.next(batch));
  CHECK_FALSE(loader.has_next());
  loader.start_epoch(2, 0, 2);
  CHECK(loader.has_next());
  CHECK(loader.has_next());
  REQUIRE(loader.next(batch));
  CHECK(numbers_of(batch) == Numbers{200, 201, 202, 203});
  CHECK(batch.indices == Numbers{0, 1, 2, 3});
  CHECK(loader.batch_idx() == 0);
  CHECK(loader.epoch() == 2);
  CHECK(rest_of(loader).size() == 1);
}

TEST_CASE("a stream goes on behind the last batch that was used, however far it was read ahead") {
  const int workers = GENERATE(0, 2);
  const bool saves = GENERATE(false, true);
  DataLoader loader = loader_of(std::make_shared<Counted>(10, saves), workers);
  loader.start_epoch(1);
  Batch batch;
  for (std::int64_t used = 0; used < 4; ++used) {
    CAPTURE(workers, saves, used);
    if (used > 0) loader.next(batch);
    loader.has_next();
    const StateDict position = loader.stream_position();
    DataLoader other = loader_of(std::make_shared<Counted>(10, saves), workers);
    other.load_stream_position(position);
    CHECK(test::first_difference(other.stream_position(), position).empty());
    other.start_epoch(1, std::max<std::int64_t>(used, 1));
    const std::vector<Numbers> whole{{100, 101, 102, 103}, {104, 105, 106, 107}, {108, 109}};
    CHECK(rest_of(other) ==
          std::vector<Numbers>(whole.begin() + std::min<std::int64_t>(used, 3), whole.end()));
  }
}

TEST_CASE("a stream cannot go on without a position, or beyond its end") {
  DataLoader loader = loader_of(std::make_shared<Counted>(10, false));
  CHECK_THROWS_AS(loader.start_epoch(0, 1), StateError);
  StateDict beyond;
  beyond.set("samples", 11);
  beyond.set("ended", false);
  loader.load_stream_position(beyond);
  CHECK_THROWS_AS(loader.start_epoch(0, 2), StateError);
}

TEST_CASE("drop_last leaves out the last samples of a shard") {
  DataLoader loader = loader_of(std::make_shared<Counted>(10), 0, /*drop_last=*/true);
  loader.start_epoch(0);
  CHECK(rest_of(loader).size() == 2);
}

}  // namespace
}  // namespace cxtrain
