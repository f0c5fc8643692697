#include "cxtrain/data/data_loader.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <sys/resource.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include "support/catch.h"
#include "support/error_text.h"
#include "support/hidden_case.h"
#include "support/skip.h"

#include "cxtrain/base/error.h"
#include "cxtrain/data/tensor_dataset.h"

namespace {

using namespace cxtrain;
using Sequence = std::vector<std::vector<std::int64_t>>;

/// Samples are their own index. Threads change places within a batch, so that workers finish out of order.
class NumberDataset final : public Dataset {
 public:
  explicit NumberDataset(std::int64_t size, std::int64_t bad = -1) : size_(size), bad_(bad) {}
  std::int64_t size() const override { return size_; }

  void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
    collated_ += 1;
    for (const std::int64_t i : indices) {
      if (i == bad_) throw std::runtime_error("sample " + std::to_string(i) + " is damaged");
      if (i % 3 == 0) std::this_thread::yield();
    }
    batch.tensors.assign(1, at::Tensor());
    batch.tensors[0] = gather_rows(numbers_, indices).clone();
    batch.size = static_cast<std::int64_t>(indices.size());
    const std::lock_guard lock(mutex_);
    threads_.insert(std::this_thread::get_id());
  }

  std::int64_t collated() const { return collated_; }
  std::set<std::thread::id> threads() const {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

 private:
  std::int64_t size_, bad_;
  at::Tensor numbers_ = at::arange(size_, at::TensorOptions().dtype(at::kLong));
  mutable std::atomic<std::int64_t> collated_ = 0;
  mutable std::mutex mutex_;
  mutable std::set<std::thread::id> threads_;
};

DataLoader make_loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options,
                       std::int64_t batch_size = 4) {
  return DataLoader(
      {.dataset = dataset},
      ShardedSampler(dataset->size(), {}, {.batch_size = batch_size, .shuffle = true, .seed = 3}), options);
}

Sequence read_all(DataLoader& loader) {
  Sequence all;
  for (Batch batch; loader.next(batch);) {
    const auto* data = batch[0].const_data_ptr<std::int64_t>();
    all.emplace_back(data, data + batch.size);
  }
  return all;
}

}  // namespace

TEST_CASE("any number of workers gives the same batches in the same order", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(403);
  DataLoader plain = make_loader(data, {});
  const int workers = GENERATE(1, 2, 4);
  const int prefetch = GENERATE(1, 3);
  DataLoader threaded = make_loader(data, {.num_workers = workers, .prefetch_factor = prefetch});
  for (const std::int64_t epoch : {0, 1, 2}) {
    plain.start_epoch(epoch);
    threaded.start_epoch(epoch);
    const Sequence expected = read_all(plain);
    CHECK(expected.size() == 101);
    CHECK(read_all(threaded) == expected);
  }
}

TEST_CASE("without workers the calling thread collates, with workers only they do", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(40);
  DataLoader plain = make_loader(data, {});
  plain.start_epoch(0);
  CHECK(data->collated() == 0);
  read_all(plain);
  CHECK(data->threads() == std::set{std::this_thread::get_id()});
  const auto other = std::make_shared<NumberDataset>(40);
  DataLoader threaded = make_loader(other, {.num_workers = 3});
  threaded.start_epoch(0);
  read_all(threaded);
  CHECK(other->threads().size() <= 3);
  CHECK_FALSE(other->threads().contains(std::this_thread::get_id()));
  CHECK(other->collated() == 10);
}

TEST_CASE("an epoch that starts in the middle has the same tail", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(90);
  const int workers = GENERATE(0, 2);
  DataLoader loader = make_loader(data, {.num_workers = workers});
  loader.start_epoch(2);
  const Sequence whole = read_all(loader);
  for (const std::int64_t first : {1, 7, 22, 23}) {
    loader.start_epoch(2, first);
    CHECK(read_all(loader) == Sequence(whole.begin() + first, whole.end()));
  }
  loader.start_epoch(2, 3, 5);
  CHECK(read_all(loader) == Sequence(whole.begin() + 3, whole.begin() + 5));
  loader.start_epoch(2, 20, 1000);
  CHECK(read_all(loader) == Sequence(whole.begin() + 20, whole.end()));
}

TEST_CASE("prefetching is bounded", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(400);
  DataLoader loader = make_loader(data, {.num_workers = 2, .prefetch_factor = 2});
  loader.start_epoch(0);
  Batch batch;
  for (std::int64_t taken = 1; taken <= 50; ++taken) {
    REQUIRE(loader.next(batch));
    REQUIRE(data->collated() <= taken + 4);
  }
}

TEST_CASE("what a worker throws arrives at its batch, and ends the epoch", "[loader]") {
  const int workers = GENERATE(0, 1, 3);
  const auto healthy = std::make_shared<NumberDataset>(60);
  DataLoader reference = make_loader(healthy, {});
  reference.start_epoch(0);
  const Sequence expected = read_all(reference);
  const std::int64_t bad = expected[9][2];

  DataLoader loader = make_loader(std::make_shared<NumberDataset>(60, bad), {.num_workers = workers});
  loader.start_epoch(0);
  Batch batch;
  for (int i = 0; i < 9; ++i) REQUIRE(loader.next(batch));
  CHECK_THROWS_WITH(loader.next(batch), "sample " + std::to_string(bad) + " is damaged");
  CHECK_FALSE(loader.next(batch));
  loader.start_epoch(0, 10);
  CHECK(read_all(loader) == Sequence(expected.begin() + 10, expected.end()));
}

TEST_CASE("a loader stops at any time", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(10000);
  for (int round = 0; round < 20; ++round) {
    DataLoader loader = make_loader(data, {.num_workers = 3});
    loader.start_epoch(round);
    Batch batch;
    for (int i = 0; i < round % 4; ++i) REQUIRE(loader.next(batch));
    if (round % 2 == 0) loader.start_epoch(round + 1);
  }
  SUCCEED("every destructor returned");
}

TEST_CASE("workers outlive an epoch, also one that was left or that failed", "[loader]") {
  /// Counts the threads that collate.
  class ThreadLocal final : public Dataset {
   public:
    std::int64_t size() const override { return 40; }
    Batch get(std::int64_t index, SampleRandom& random) const override {
      thread_local bool is_new = true;
      if (std::exchange(is_new, false)) ++threads;
      if (fails && index == 20) throw std::runtime_error("damaged");
      return {{at::scalar_tensor(static_cast<double>(index) + random.uniform())}};
    }
    mutable std::atomic<int> threads = 0;
    std::atomic<bool> fails = false;
  };
  const auto data = std::make_shared<ThreadLocal>();
  DataLoader loader = make_loader(data, {.num_workers = 2}), alone = make_loader(data, {});
  for (int epoch = 0; epoch < 12; ++epoch) {
    data->fails = epoch % 4 == 3;
    const std::int64_t first = data->fails ? 0 : epoch % 3;
    loader.start_epoch(epoch, first);
    alone.start_epoch(epoch, first);
    Batch batch, expected;
    try {
      for (int i = 0; (epoch % 4 != 1 || i < 3) && loader.next(batch); ++i) {
        if (data->fails) continue;
        REQUIRE(alone.next(expected));
        CHECK(batch[0].equal(expected[0]));
      }
      CHECK_FALSE(data->fails);
    } catch (const std::runtime_error&) {
      CHECK(data->fails);
    }
  }
  CHECK(data->threads <= 3);  // two workers and this thread
}

TEST_CASE("the loader tells where it is", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(10);
  DataLoader loader({.dataset = data}, ShardedSampler(10, {0, 2}, {.batch_size = 3, .uneven = Uneven::exact}),
                    {});
  loader.start_epoch(0);
  CHECK(loader.num_batches() == 2);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(loader.global_size() == 6);
  REQUIRE(loader.next(batch));
  CHECK(loader.batch_idx() == 1);
  CHECK(loader.global_size() == 4);
  CHECK(batch.size == 2);
  CHECK_FALSE(loader.next(batch));
  CHECK(loader.global_size() == 4);
}

TEST_CASE("impossible loaders are refused", "[loader]") {
  const auto data = std::make_shared<NumberDataset>(10);
  CHECK_THROWS_AS(make_loader(data, {.num_workers = -1}), ConfigError);
  CHECK_THROWS_AS(make_loader(data, {.num_workers = 1, .prefetch_factor = 0}), ConfigError);
}

TEST_CASE("operators in a worker stay on its thread", "[loader]") {
  /// Notes how many threads ATen would use where it collates.
  class ThreadCount final : public Dataset {
   public:
    std::int64_t size() const override { return 2; }
    void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
      batch.tensors = {at::empty({1}, at::kLong).fill_(at::get_num_threads())};
      batch.size = static_cast<std::int64_t>(indices.size());
    }
  };
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  const auto data = std::make_shared<ThreadCount>();
  for (const int workers : {0, 2}) {
    DataLoader loader = make_loader(data, {.num_workers = workers}, 1);
    loader.start_epoch(0);
    int batches = 0;
    for (Batch batch; loader.next(batch); ++batches) {
      CHECK(batch[0].item<std::int64_t>() == (workers > 0 ? 1 : 4));
    }
    CHECK(batches == 2);
  }
  CHECK(at::get_num_threads() == 4);
  at::set_num_threads(before);
}

TEST_CASE("a dataset learns epoch and seed, a batch its samples, for any number of workers", "[data]") {
  class Augmented final : public Dataset {
   public:
    std::int64_t size() const override { return 6; }
    void collate(std::span<const std::int64_t> indices, const SampleContext& context,
                 Batch& batch) const override {
      batch.tensors = {
          at::empty({}, at::kLong)
              .fill_(1000 * static_cast<std::int64_t>(context.seed) + 100 * context.epoch + indices.front())};
      batch.size = static_cast<std::int64_t>(indices.size());
    }
  };
  const auto data = std::make_shared<Augmented>();
  const SamplerOptions sampling{.batch_size = 2, .shuffle = true, .seed = 7};
  for (const int workers : {0, 2}) {
    DataLoader loader({data, 2}, ShardedSampler(6, {}, sampling), {.num_workers = workers});
    for (const std::int64_t epoch : {0, 3}) {
      loader.start_epoch(epoch);
      ShardedSampler expected(6, {}, sampling);
      expected.start_epoch(epoch);
      std::int64_t k = 0;
      for (Batch batch; loader.next(batch); ++k) {
        const std::vector<std::int64_t> samples = expected.batch(k);
        CHECK(batch[0].item<std::int64_t>() == 7000 + 100 * epoch + samples.front());
        CHECK(batch.indices == samples);
      }
      CHECK(k == 3);
    }
  }
}

/// Makes of the indices what a test wants; does not set the size.
class MadeDataset final : public Dataset {
 public:
  using Make = std::function<void(std::int64_t samples, Batch& batch)>;
  explicit MadeDataset(Make make) : make_(std::move(make)) {}
  std::int64_t size() const override { return 50; }
  void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
    batch.tensors.clear();
    make_(static_cast<std::int64_t>(indices.size()), batch);
  }

 private:
  Make make_;
};

TEST_CASE("a batch has the size of its samples, whether its dataset says so or not", "[loader]") {
  const auto data = std::make_shared<MadeDataset>([](std::int64_t samples, Batch& batch) {
    batch.tensors = {at::zeros({samples, 3}), at::zeros({}), at::Tensor()};
  });
  DataLoader loader = make_loader(data, {.num_workers = GENERATE(0, 2)}, 20);
  loader.start_epoch(0);
  std::vector<std::int64_t> sizes;
  for (Batch batch; loader.next(batch);) sizes.push_back(batch.size);
  CHECK(sizes == std::vector<std::int64_t>{20, 20, 10});
}

TEST_CASE("a rank without samples calls nothing of its dataset", "[loader]") {
  class NeedsSamples final : public Dataset {
   public:
    std::int64_t size() const override { return 6; }
    void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
      if (indices.empty()) throw std::runtime_error("collate was called without a sample");
      batch.tensors = {at::zeros({std::ssize(indices)})};
    }
    void on_after_batch_transfer(Batch& batch) const override { batch.tensors[0] = batch[0] + 1; }
  };
  const auto data = std::make_shared<NeedsSamples>();
  const ShardedSampler last_of_four(6, {3, 4}, {.batch_size = 1, .uneven = Uneven::exact});
  DataLoader loader({.dataset = data}, last_of_four, {.num_workers = GENERATE(0, 1)});
  loader.start_epoch(0);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(batch[0].item<float>() == 1);
  REQUIRE(loader.next(batch));  // other ranks have the two samples that are left
  CHECK(batch.size == 0);
  loader.finish(batch);
  CHECK_FALSE(loader.next(batch));
}

TEST_CASE("a batch that does not have the samples that were asked for is refused by its dataset's name",
          "[loader]") {
  struct Row {
    MadeDataset::Make make;
    const char* why;
  };
  const Row row = GENERATE(values<Row>({
      {[](std::int64_t, Batch& batch) { batch.tensors.clear(); }, "no tensor"},
      {[](std::int64_t n, Batch& batch) {
         batch.tensors = {at::zeros({n + 1, 3}), at::zeros({n})};
       },
       "batch[0] is 51"},
      {[](std::int64_t, Batch& batch) {
         batch.tensors = {at::zeros({1, 3})};
       },
       "batch[0] is 1"},
      {[](std::int64_t n, Batch& batch) { batch = {.tensors = {at::zeros({n})}, .size = -3}; },
       "batch.size to -3"},
      {[](std::int64_t n, Batch& batch) { batch = {.tensors = {at::zeros({n})}, .size = 500}; },
       "batch.size to 500"},
  }));
  DataLoader loader =
      make_loader(std::make_shared<MadeDataset>(row.make), {.num_workers = GENERATE(0, 1)}, 50);
  loader.start_epoch(0);
  Batch batch;
  CHECK_THAT(test::error_of([&] { loader.next(batch); }),
             test::contains(test::code(MessageCode::bad_data)) && test::contains("MadeDataset") &&
                 test::contains("50 samples") && test::contains(row.why));
}

TEST_CASE("a tensor that a batch does not have is named", "[data]") {
  Batch batch;
  batch.tensors.resize(2);
  CHECK(&batch[1] == &batch.tensors[1]);
  CHECK_THROWS_WITH(batch[2], test::contains("batch[2]") && test::contains("2 tensors"));
}

/// Run by the next test in a process of its own: one that has had threads may have their stacks still.
TEST_CASE("no memory for workers", "[.no_memory_for_workers]") {
  DataLoader loader =
      make_loader(std::make_shared<NumberDataset>(8), {.num_workers = 400, .prefetch_factor = 1});
  REQUIRE(std::string(std::size_t{100} << 10, ' ').back() ==
          ' ');                                               // the heap keeps this much for small things
  const rlimit limit{std::uint64_t{1} << 30, RLIM_INFINITY};  // less than is in use: no stack for another one
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK_THAT(test::error_of([&] { loader.start_epoch(0); }),
             test::contains(test::code(MessageCode::out_of_memory)) && test::contains("data.num_workers") &&
                 test::contains("400 threads"));
}

TEST_CASE("workers that cannot be started are an error that names the option", "[loader]") {
  if (!test::kAddressSpaceIsOurs) return test::skip("a sanitizer has the address space");
  CHECK(test::passes_alone("[.no_memory_for_workers]"));
}
