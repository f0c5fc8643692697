#include "cxtrain/trainer/data_fingerprint.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>

#include <functional>
#include <set>

#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/data/dataset_views.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/sequences.h"
#include "support/setting.h"

namespace cxtrain {
namespace {

DataFingerprint quick_fingerprint(const Dataset& dataset) {
  class Standing final : public Clock {  // so that a machine that is busy has no say
    double now() const override { return 0; }
  };
  return fingerprint_of(dataset, Standing());
}

TensorDataset numbers(std::int64_t samples, std::int64_t changed = -1) {
  at::Tensor inputs = at::arange(2 * samples, at::kFloat).view({samples, 2});
  if (changed >= 0) inputs[changed][1] = -1;
  return TensorDataset({inputs, at::arange(samples)});
}

/// Gives out what the function makes of an index.
class MadeUp : public Dataset {
 public:
  explicit MadeUp(std::function<at::Tensor(std::span<const std::int64_t>)> make) : make_(std::move(make)) {}
  std::int64_t size() const override { return 1000; }
  void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
    ++calls;
    batch = {.tensors = {make_(indices)}, .size = static_cast<std::int64_t>(indices.size())};
    seen.insert(indices.begin(), indices.end());
  }
  mutable int calls = 0;
  mutable std::set<std::int64_t> seen;

 private:
  std::function<at::Tensor(std::span<const std::int64_t>)> make_;
};

at::Tensor from_indices(std::span<const std::int64_t> indices) {
  return at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()));
}

TEST_CASE("a fingerprint tells datasets apart by their number, their form and their content") {
  const DataFingerprint own = quick_fingerprint(numbers(200));
  CHECK(own.samples == 200);
  CHECK(own.sample == "Float [2], Long []");
  CHECK(own.content.size() == 7);  // 1, 2, 4, 8, 16, 32, 64
  CHECK(own == quick_fingerprint(numbers(200)));
  CHECK(difference(own, quick_fingerprint(numbers(200))).empty());
  CHECK_THAT(difference(own, quick_fingerprint(numbers(201))),
             test::contains("200 samples") && test::contains("201"));
  CHECK_THAT(difference(own, quick_fingerprint(numbers(200, /*changed=*/0))),
             test::contains("another content"));
  const TensorDataset other({at::arange(200, at::kDouble), at::arange(200)});
  CHECK_THAT(difference(own, quick_fingerprint(other)),
             test::contains("Float [2], Long []") && test::contains("Double [], Long []"));
}

TEST_CASE("every sample of a small dataset counts, and of a large one 64 that lie evenly") {
  for (const std::int64_t samples : {1, 2, 3, 63, 64}) {
    const DataFingerprint own = quick_fingerprint(numbers(samples));
    for (std::int64_t changed = 0; changed < samples; ++changed) {
      CAPTURE(samples, changed);
      CHECK(!difference(own, quick_fingerprint(numbers(samples, changed))).empty());
    }
  }
  const MadeUp large(from_indices);
  quick_fingerprint(large);
  CHECK(large.seen.size() == 64);
  std::int64_t last = 0;
  for (const std::int64_t index : large.seen) {
    CHECK(index - last <= 16);
    last = index;
  }
}

TEST_CASE("data that are slow to read are known by fewer samples, and those are compared") {
  class Running final : public Clock {
   public:
    double now() const override { return time_ += 0.0015; }

   private:
    mutable double time_ = 0;
  };
  const MadeUp data(from_indices);
  const DataFingerprint slow = fingerprint_of(data, Running());
  CHECK(slow.content.size() == 2);
  CHECK(difference(slow, quick_fingerprint(data)).empty());
  CHECK(difference(quick_fingerprint(data), slow).empty());
  const MadeUp others([](std::span<const std::int64_t> indices) { return from_indices(indices) + 1; });
  CHECK(!difference(slow, quick_fingerprint(others)).empty());
}

TEST_CASE("samples that are others each time are not compared, and nothing random is used up") {
  const MadeUp random([](std::span<const std::int64_t> indices) {
    return at::rand(static_cast<std::int64_t>(indices.size()));
  });
  at::manual_seed(4);
  const at::Tensor expected = at::rand(5);
  at::manual_seed(4);
  const DataFingerprint own = quick_fingerprint(random);
  CHECK(at::equal(at::rand(5), expected));
  CHECK(own == DataFingerprint{.samples = 1000});
  CHECK(difference(own, quick_fingerprint(MadeUp(from_indices))).empty());
  CHECK(difference(quick_fingerprint(MadeUp(from_indices)), own).empty());

  const MadeUp fails([](std::span<const std::int64_t> indices) -> at::Tensor {
    if (indices.size() > 2) throw std::runtime_error("unreadable");
    return from_indices(indices);
  });
  CHECK(quick_fingerprint(fails) == DataFingerprint{.samples = 1000});
}

TEST_CASE("data whose samples seldom differ do not keep a training from going on") {
  SoloWorld world;
  int calls = 0;
  const MadeUp now_and_then([&calls](std::span<const std::int64_t> indices) {
    return from_indices(indices) + (++calls % 29 == 0 ? 1 : 0);
  });
  const std::string own = to_text(quick_fingerprint(now_and_then));
  const MadeUp others([](std::span<const std::int64_t> indices) { return from_indices(indices) + 5; });
  CHECK_NOTHROW(require_data_of_checkpoint(world, to_text(quick_fingerprint(others)), own, now_and_then));
  const MadeUp steady(from_indices);
  const std::string steady_text = to_text(quick_fingerprint(steady));
  CHECK_THAT(test::error_of([&] {
               require_data_of_checkpoint(world, to_text(quick_fingerprint(others)), steady_text, steady);
             }),
             test::contains(test::code(MessageCode::data_changed)) && test::contains("another content"));
  for (const char* unknown : {"", "of a later program", "12", "1000 samples; x"})
    CHECK_NOTHROW(require_data_of_checkpoint(world, unknown, steady_text, steady));
  CHECK_NOTHROW(require_data_of_checkpoint(world, steady_text, "", steady));
}

TEST_CASE("a fingerprint comes back from its text") {
  for (const DataFingerprint& each :
       {quick_fingerprint(numbers(200)), quick_fingerprint(numbers(1)), DataFingerprint{.samples = 3}}) {
    const auto read = data_fingerprint_from(to_text(each));
    REQUIRE(read.has_value());
    CHECK(*read == each);
  }
  CHECK(to_text(DataFingerprint{.samples = 3}) == "3 samples");
}

/// Other samples whenever they are read.
class NeverTheSame : public DataModule {
 public:
  void setup(Stage, const DataOptions&) override {}
  Loaders train_dataloader() override { return {std::make_shared<Drawn>(), 8}; }

 private:
  class Drawn : public Dataset {
   public:
    std::int64_t size() const override { return 32; }
    void collate(std::span<const std::int64_t> indices, const SampleContext&, Batch& batch) const override {
      const auto count = static_cast<std::int64_t>(indices.size());
      batch = {.tensors = {at::rand({count, 6}), at::rand({count, 2})}, .size = count};
    }
  };
};

struct ResumedSetting : test::Setting {
  RunSummary fit_epochs(int epochs, DataModule& data) {
    options.trainer.max_epochs = epochs;
    if (epochs > 1) options.ckpt_path = "last";
    test::Regression model;
    return fit(model, data);
  }
  std::string checkpoint() const {
    return dir.path() + "/cxtrain_logs/version_0/checkpoints/epoch=0-step=4.ckpt";
  }
};

TEST_CASE("a training does not go on with other data, unless it is told to or its checkpoint is an old one") {
  ResumedSetting setting;
  test::ToyData data(32, 8), more(40, 8);
  REQUIRE(setting.fit_epochs(1, data).global_step == 4);
  CHECK_THAT(test::error_of([&] { setting.fit_epochs(2, more); }),
             test::contains(test::code(MessageCode::data_changed)) && test::contains("32 samples") &&
                 test::contains("40"));
  SECTION("the same data") {
    test::ToyData same(32, 8);
    CHECK(setting.fit_epochs(2, same).global_step == 8);
  }
  SECTION("told to") {
    setting.options.data.fingerprint = false;
    CHECK(setting.fit_epochs(2, more).global_step == 9);
  }
  SECTION("data that may change while they train") {
    setting.options.trainer.reload_dataloaders_every_n_epochs = 1;
    CHECK(setting.fit_epochs(2, more).global_step == 9);
  }
  SECTION("an old checkpoint") {
    Manifest manifest = read_manifest(real_filesystem(), setting.checkpoint());
    CHECK(manifest.data.starts_with("32 samples; Float [6], Float [2]; "));
    manifest.data.clear();
    write_atomically(real_filesystem(), setting.checkpoint() + "/manifest.json", to_text(manifest));
    CHECK(setting.fit_epochs(2, more).global_step == 9);
  }
}

TEST_CASE("a training with samples that are others each time goes on") {
  ResumedSetting setting;
  NeverTheSame data;
  REQUIRE(setting.fit_epochs(1, data).global_step == 4);
  CHECK(read_manifest(real_filesystem(), setting.checkpoint()).data == "32 samples");
  CHECK(setting.fit_epochs(2, data).global_step == 8);
}

TEST_CASE("a fingerprint covers the tensors of objects") {
  const test::SequenceData<> data(40);
  const DataFingerprint own = quick_fingerprint(data);
  CHECK_THAT(own.sample, test::contains("Float [2], "));
  CHECK_THAT(own.sample, test::contains("Sequences"));
  CHECK(own.content.size() == 7);
  CHECK(own == quick_fingerprint(data));
  const auto changed = map(std::make_shared<test::SequenceData<>>(40), [](Batch sample, SampleRandom&) {
    sample.change_object_tensors([](at::Tensor& tensor) {
      if (tensor.is_floating_point()) tensor.add_(0.5);
    });
    return sample;
  });
  CHECK(!difference(own, quick_fingerprint(*changed)).empty());
}

}  // namespace
}  // namespace cxtrain
