#include "cxtrain/data/dataset_views.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "cxtrain/base/error.h"
#include "cxtrain/data/tensor_dataset.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace {

using namespace cxtrain;
using test::contains;
using Numbers = std::vector<double>;

/// Sample i is the number i, as `TensorDataset` keeps it.
DatasetPtr numbered(std::int64_t samples) {
  return std::make_shared<TensorDataset>(std::vector<at::Tensor>{at::arange(samples).to(at::kDouble)});
}

Numbers numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).flatten().contiguous();
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

Numbers read(const Dataset& dataset, const std::vector<std::int64_t>& indices, std::int64_t epoch = 0) {
  Batch batch;
  collate_samples(dataset, indices, {.epoch = epoch, .seed = 5}, batch);
  return numbers(batch[0]);
}

Numbers read_all(const Dataset& dataset, std::int64_t epoch = 0) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return read(dataset, indices, epoch);
}

/// Sample by sample, with names; sample i is 10 i plus noise below 1.
class Noisy : public Dataset {
 public:
  std::int64_t size() const override { return 6; }
  Batch get(std::int64_t index, SampleRandom& random) const override {
    return Batch::named({{"image.left", at::full({2}, static_cast<double>(10 * index) + random.uniform())},
                         {"image.right", at::zeros({3})},
                         {"label", at::tensor(index)}});
  }
};

}  // namespace

TEST_CASE("a dataset of single samples is stacked, with the names of its tensors", "[dataset]") {
  const Noisy dataset;
  Batch batch;
  collate_samples(dataset, std::vector<std::int64_t>{4, 1}, {}, batch);
  CHECK(batch.size == 2);
  CHECK(batch["image.left"].sizes() == at::IntArrayRef{2, 2});
  CHECK(numbers(batch["label"]) == Numbers{4, 1});
  CHECK(batch.part("image")["right"].sizes() == at::IntArrayRef{2, 3});
  CHECK(batch.part("image").size == 2);
  CHECK(batch.has("image"));
  CHECK(batch.has("image.left"));
  CHECK_FALSE(batch.has("ima"));
  const auto [left, right] = batch.unpack<2>();
  CHECK(right.equal(batch[1]));
  CHECK_THAT(test::error_of<std::out_of_range>([&] { batch["lable"]; }),
             contains("lable") && contains("image.left, image.right, label"));
  CHECK_THROWS_AS(batch.part("label"), std::out_of_range);
  CHECK_THROWS_AS(batch.unpack<4>(), std::out_of_range);
}

TEST_CASE("a sample's random numbers depend on seed, epoch and index alone", "[dataset]") {
  const Noisy dataset;
  const Numbers all = read_all(dataset);
  CHECK(read(dataset, {3}) == Numbers{all[6], all[7]});  // in another batch the same
  CHECK(read_all(dataset) == all);
  CHECK(read_all(dataset, 1) != all);
  std::set<double> noise;
  for (std::size_t i = 0; i < all.size(); i += 2) noise.insert(all[i] - static_cast<double>(i / 2 * 10));
  CHECK(noise.size() == 6);
}

TEST_CASE("random numbers of a sample have the distribution that their method names", "[dataset]") {
  double sum = 0, squares = 0, uniforms = 0;
  std::vector<int> counts(7);
  int heads = 0;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    SampleRandom random(1, 2, i);
    const double normal = random.normal(), uniform = random.uniform(2, 4);
    sum += normal;
    squares += normal * normal;
    CHECK((uniform >= 2 && uniform < 4));
    uniforms += uniform;
    ++counts[static_cast<std::size_t>(random.below(7))];
    heads += random.flip(0.25) ? 1 : 0;
  }
  CHECK(std::abs(sum / draws) < 0.03);
  CHECK(std::abs(squares / draws - 1) < 0.05);
  CHECK(std::abs(uniforms / draws - 3) < 0.02);
  CHECK(std::abs(heads - draws / 4) < 300);
  for (const int count : counts) CHECK(std::abs(count - draws / 7) < 250);
  SampleRandom a(1, 2, 3), b(1, 2, 3, /*layer=*/1);
  CHECK(a.generator().current_seed() != b.generator().current_seed());
}

TEST_CASE("map changes each sample, and maps over each other draw different numbers", "[dataset]") {
  const auto add_noise = [](Batch sample, SampleRandom& random) {
    sample.tensors[0].add_(random.uniform());  // in place: the data below stay
    return sample;
  };
  const DatasetPtr data = numbered(5), once = map(data, add_noise), twice = map(once, add_noise);
  const Numbers first = read_all(*once), second = read_all(*twice);
  CHECK(read_all(*data) == Numbers{0, 1, 2, 3, 4});
  std::set<double> steps;
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK((first[i] > static_cast<double>(i) && first[i] < static_cast<double>(i) + 1));
    steps.insert(second[i] - 2 * first[i] + static_cast<double>(i));
  }
  CHECK(steps.size() == 5);
  CHECK(*steps.begin() != 0);
}

TEST_CASE("concat, subset and repeat name the samples of the datasets below", "[dataset]") {
  const DatasetPtr joined = concat({numbered(2), numbered(0), numbered(3)});
  CHECK(read_all(*joined) == Numbers{0, 1, 0, 1, 2});
  CHECK(read(*joined, {4, 0, 2}) == Numbers{2, 0, 0});
  CHECK(read_all(*subset(joined, {4, 4, 1})) == Numbers{2, 2, 1});
  CHECK_THAT(test::error_of<DataError>([&] { subset(joined, {5}); }),
             contains("5") && contains(test::code(MessageCode::bad_data)));
  CHECK_THROWS_AS(concat({}), DataError);
  CHECK_THROWS_AS(repeat(joined, 0), DataError);
  const DatasetPtr repeated = repeat(std::make_shared<Noisy>(), 2);
  CHECK(repeated->size() == 12);
  const Numbers all = read_all(*repeated);
  CHECK(all[0] != all[12]);                          // the second time has other noise
  CHECK(std::floor(all[2]) == std::floor(all[14]));  // on the same sample
}

TEST_CASE("random_split gives every sample to one part", "[dataset]") {
  const auto parts = random_split(numbered(101), {0.7, 0.2, 0.1}, 3);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0]->size() == 71);
  CHECK(parts[1]->size() == 20);
  CHECK(parts[2]->size() == 10);
  Numbers all;
  for (const DatasetPtr& part : parts) {
    const Numbers own = read_all(*part);
    all.insert(all.end(), own.begin(), own.end());
  }
  CHECK_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == static_cast<double>(i));
  CHECK(read_all(*random_split(numbered(101), {0.7, 0.2, 0.1}, 3)[1]) == read_all(*parts[1]));
  const auto large = random_split(numbered(2'000'000), {0.5, 0.5000009}, 3);
  CHECK(large[0]->size() + large[1]->size() == 2'000'000);
  CHECK_THROWS_AS(random_split(numbered(4), {0.5, 0.6}), DataError);
  CHECK_THROWS_AS(random_split(numbered(4), {1.5, -0.5}), DataError);
}

TEST_CASE("samples that cannot be stacked are rejected with their shapes", "[dataset]") {
  struct Ragged : Dataset {
    std::int64_t size() const override { return 3; }
    Batch get(std::int64_t index, SampleRandom&) const override { return {{at::ones({index + 1})}}; }
  };
  struct Nothing : Dataset {
    std::int64_t size() const override { return 3; }
  };
  CHECK_THAT(test::error_of<DataError>([] { read_all(Ragged()); }),
             contains("samples 0 and 1") && contains("[1]") && contains("[2]"));
  CHECK_THAT(test::error_of<DataError>([] { read_all(Nothing()); }), contains("Nothing") && contains("get"));
}

TEST_CASE("a dataset that collates gives single samples, too", "[dataset]") {
  SampleRandom random(0, 0, 0);
  CHECK(numbers(numbered(5)->get(3, random)[0]) == Numbers{3});
}

TEST_CASE("a dataset over a view passes the view random numbers of seed, epoch and index", "[dataset]") {
  class Above final : public Dataset {
   public:
    std::int64_t size() const override { return below_->size(); }
    Batch get(std::int64_t index, SampleRandom& random) const override { return below_->get(index, random); }

   private:
    DatasetPtr below_ = subset(std::make_shared<Noisy>(), {0, 1, 2, 3, 4, 5});
  };
  const Above above;
  CHECK(read_all(above) == read_all(above));
  std::set<double> noise;
  for (const std::int64_t epoch : {0, 1, 2}) {
    const Numbers rows = read_all(above, epoch);
    for (std::size_t i = 0; i < 6; ++i) noise.insert(rows[2 * i] - static_cast<double>(10 * i));
  }
  CHECK(noise.size() == 18);  // another one for each epoch and index
}
