#include "cxtrain/data/batch_object.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include <numeric>
#include <stdexcept>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_loader.h"
#include "cxtrain/data/dataset_views.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/sequences.h"

namespace {

using namespace cxtrain;
using test::contains;
using test::error_of;
using test::SequenceData;
using test::Sequences;

std::shared_ptr<Sequences> sequence_of(double value, std::int64_t length) {
  return std::make_shared<Sequences>(at::full({length, 6}, value), at::tensor({length}));
}

Batch collated(const Dataset& dataset, const std::vector<std::int64_t>& indices) {
  Batch batch;
  collate_samples(dataset, indices, {}, batch);
  return batch;
}

std::vector<std::int64_t> lengths_of(const Batch& batch) {
  const at::Tensor& lengths = batch.object<Sequences>().lengths;
  return {lengths.const_data_ptr<std::int64_t>(), lengths.const_data_ptr<std::int64_t>() + lengths.numel()};
}

/// Another class, or an object that counts wrongly.
struct Miscounted : Sequences {
  using Sequences::Sequences;
  std::int64_t size() const override { return 7; }
  std::shared_ptr<BatchObject> collate(const Samples&) const override { return clone_of(); }
  std::shared_ptr<BatchObject> clone_of() const { return std::make_shared<Miscounted>(values, lengths); }
};

class Odd : public SequenceData<> {
 public:
  explicit Odd(std::string what) : SequenceData(8), what_(std::move(what)) {}
  Batch get(std::int64_t index, SampleRandom& random) const override {
    Batch sample = SequenceData::get(index, random);
    const auto own = [&] { return std::make_shared<Miscounted>(at::ones({1, 6}), at::ones({1}, at::kLong)); };
    if (what_ == "classes" && index == 2) sample.objects[0].value = own();
    if (what_ == "number" && index == 2) sample.objects.clear();
    if (what_ == "null") sample.objects[0].value = nullptr;
    if (what_ == "size") sample.objects[0].value = own();
    return sample;
  }

 private:
  std::string what_;
};

}  // namespace

TEST_CASE("objects of samples are collated by their class", "[batch]") {
  const Batch batch = collated(SequenceData(10), {5, 0, 3});
  CHECK(batch.size == 3);
  CHECK(lengths_of(batch) == std::vector<std::int64_t>{2, 1, 4});
  CHECK(batch.object<Sequences>().values.size(0) == 7);
  CHECK(batch.object<Sequences>().values[0][0].item<double>() == Approx(0.25));
  CHECK(batch.object<BatchObject>().size() == 3);
  CHECK(collated(SequenceData(10), {}).objects.empty());

  const Batch alone = collated(*map(std::make_shared<SequenceData<>>(10),
                                    [](Batch sample, SampleRandom&) {
                                      sample.tensors.clear();
                                      return sample;
                                    }),
                               {1, 2});
  CHECK(alone.tensors.empty());
  CHECK(lengths_of(alone) == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("an object is read as its class, by its number or its name", "[batch]") {
  Batch batch;
  batch.objects = {{sequence_of(1, 2)}, {sequence_of(2, 3), "text"}};
  CHECK(batch.object<Sequences>(1).lengths.item<std::int64_t>() == 3);
  CHECK(batch.object<Sequences>("text").lengths.item<std::int64_t>() == 3);
  CHECK(batch.has("text"));
  CHECK_THAT(error_of<std::out_of_range>([&] { batch.object<Sequences>(2); }), contains("2 objects"));
  CHECK_THAT(error_of<std::out_of_range>([&] { batch.object<Sequences>("word"); }), contains("text"));
  const std::string message = error_of<std::out_of_range>([&] { batch.object<Miscounted>(0); });
  CHECK_THAT(message, contains("Miscounted"));
  CHECK_THAT(message, contains("test::Sequences"));
}

TEST_CASE("objects that do not fit together are rejected with their classes", "[batch]") {
  CHECK_THAT(error_of<DataError>([] { collated(Odd("classes"), {1, 2}); }), contains("Miscounted"));
  CHECK_THAT(error_of<DataError>([] { collated(Odd("number"), {1, 2}); }), contains("samples 1 and 2"));
  CHECK_THAT(error_of<DataError>([] { collated(Odd("null"), {1, 2}); }), contains("no object"));
  const std::string message = error_of<DataError>([] { collated(Odd("size"), {1, 2}); });
  CHECK_THAT(message, contains("7 samples in a batch of 2"));
}

TEST_CASE("views of datasets keep objects, and a change leaves the dataset as it was", "[batch]") {
  class Kept : public SequenceData<> {
   public:
    Kept() : SequenceData(4) {}
    Batch get(std::int64_t, SampleRandom&) const override { return {.objects = {{own}}}; }
    std::shared_ptr<Sequences> own = sequence_of(1, 2);
  };
  const auto kept = std::make_shared<Kept>();
  const DatasetPtr changed = map(kept, [](Batch sample, SampleRandom&) {
    sample.change_object_tensors([](at::Tensor& tensor) { tensor.add_(1); });
    return sample;
  });
  CHECK(collated(*changed, {0, 1}).object<Sequences>().values[0][0].item<double>() == 2);
  CHECK(kept->own->values[0][0].item<double>() == 1);

  const auto data = std::make_shared<SequenceData<>>(4);
  CHECK(lengths_of(collated(*concat({data, data}), {3, 4})) == std::vector<std::int64_t>{4, 1});
  CHECK(lengths_of(collated(*subset(data, {2, 3}), {0, 1})) == std::vector<std::int64_t>{3, 4});
  CHECK(lengths_of(collated(*repeat(data, 2), {6})) == std::vector<std::int64_t>{3});
}

TEST_CASE("the parts of several loaders keep their objects", "[batch]") {
  const Batch clean = collated(SequenceData(4), {0, 1});
  Batch noisy = collated(SequenceData(8), {7});
  noisy.objects[0].name = "text";
  const Batch joined = Batch::joined({{"clean", clean}, {"noisy", noisy}});
  CHECK(joined.has("clean"));
  CHECK(lengths_of(joined.part("clean")) == std::vector<std::int64_t>{1, 2});
  CHECK(joined.part("clean").size == 2);
  CHECK(joined.object<Sequences>("noisy.text").size() == 1);
  CHECK(joined.part("noisy").object<Sequences>("text").size() == 1);
  CHECK_THAT(error_of<std::out_of_range>([&] { joined.part("other"); }), contains("noisy.text"));
}

TEST_CASE("a loader's threads make batches of objects in order", "[batch]") {
  const auto data = std::make_shared<SequenceData<>>(23);
  std::vector<std::vector<std::int64_t>> expected;
  for (const int workers : {0, 2}) {
    DataLoader loader({.dataset = data},
                      ShardedSampler(23, {}, {.batch_size = 4, .shuffle = true, .seed = 3}),
                      {.num_workers = workers});
    std::vector<std::vector<std::int64_t>> lengths;
    for (const std::int64_t epoch : {0, 1}) {
      loader.start_epoch(epoch);
      for (Batch batch; loader.next(batch);) {
        REQUIRE(batch.objects.size() == 1);
        CHECK(batch.object<Sequences>().size() == batch.size);
        lengths.push_back(lengths_of(batch));
      }
    }
    CHECK(lengths.size() == 12);
    CHECK((workers == 0 || lengths == expected));
    expected = lengths;
  }
}

TEST_CASE("a stream gives objects, and an empty batch has none", "[batch]") {
  class Numbers : public StreamDataset {
   public:
    std::unique_ptr<Stream> open(const StreamContext&) const override {
      class Six : public Stream {
       public:
        bool next(Batch& sample) override {
          if (read_ == 6) return false;
          sample = {.objects = {{sequence_of(1, ++read_)}}};
          return true;
        }

       private:
        std::int64_t read_ = 0;
      };
      return std::make_unique<Six>();
    }
  };
  DataLoader loader(std::make_unique<StreamReader>(std::make_shared<Numbers>(), 4, false), StreamContext{});
  loader.start_epoch(0);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(lengths_of(batch) == std::vector<std::int64_t>{1, 2, 3, 4});
  REQUIRE(loader.next(batch));
  CHECK(lengths_of(batch) == std::vector<std::int64_t>{5, 6});
  CHECK_FALSE(loader.next(batch));
  CHECK(batch.objects.empty());
}
