#pragma once

#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <cxtrain/base/error.h>
#include <cxtrain/cluster/launch_environment.h>
#include <cxtrain/data/data_file.h>
#include <cxtrain/data/dataset.h>
#include <cxtrain/data/dataset_views.h>
#include <cxtrain/trainer/data_module.h>
#include <cxtrain/trainer/image_folders.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

/// What docs/load_your_data.md shows: each of its blocks stands here, or in own_data.cpp, as it is.

/// Grey images of 8 x 8 bytes, each followed by a byte with its class: 65 bytes per sample.
inline at::Tensor read_glyphs(const std::string& path) {
  const std::string bytes = cxtrain::read_file(path);
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0 || size % 65 != 0) {
    throw cxtrain::DataError("'" + path + "' has " + std::to_string(size) +
                             " bytes, and samples have 65; name a file of whole samples");
  }
  at::Tensor samples = at::empty({size / 65, 65}, at::kByte);
  std::memcpy(samples.mutable_data_ptr(), bytes.data(), bytes.size());
  return samples;
}

class Glyphs : public cxtrain::Dataset {
 public:
  Glyphs(at::Tensor samples, bool augment) : samples_(std::move(samples)), augment_(augment) {}

  std::int64_t size() const override { return samples_.size(0); }

  cxtrain::Batch get(std::int64_t index, cxtrain::SampleRandom& random) const override {
    const at::Tensor row = samples_[index];
    at::Tensor image = row.narrow(0, 0, 64);
    if (augment_) image = at::roll(image.view({8, 8}), random.below(3) - 1, 1).flatten();
    return {{image, row[64].to(at::kLong)}};  // by convention the input and the target
  }

  void on_after_batch_transfer(cxtrain::Batch& batch) const override {
    batch.tensors[0] = batch.tensors[0].to(at::kFloat).div(255);
  }

 private:
  at::Tensor samples_;
  bool augment_;
};

class GlyphData : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override {
    const at::Tensor all = read_glyphs(options.path);
    const std::int64_t cut = all.size(0) / 10 * 9;
    train_ = std::make_shared<Glyphs>(all.narrow(0, 0, cut), /*augment=*/true);
    val_ = std::make_shared<Glyphs>(all.narrow(0, cut, all.size(0) - cut), /*augment=*/false);
  }
  cxtrain::Loaders train_dataloader() override { return {train_, 32, /*shuffle=*/true}; }
  cxtrain::Loaders val_dataloader() override { return {val_, 32}; }
  cxtrain::Loaders predict_dataloader() override { return {{train_, 32}, {val_, 32}}; }

 protected:
  std::shared_ptr<const cxtrain::Dataset> train_, val_;
};

/// Draws each of the 10 classes as often.
class BalancedGlyphs : public GlyphData {
 public:
  void setup(cxtrain::Stage stage, const cxtrain::DataOptions& options) override {
    GlyphData::setup(stage, options);
    cxtrain::SampleRandom random(0, 0, 0);
    std::vector<double> counts(10);
    for (std::int64_t i = 0; i < train_->size(); ++i) ++counts.at(class_of(i, random));
    for (std::int64_t i = 0; i < train_->size(); ++i) weights_.push_back(1 / counts.at(class_of(i, random)));
  }
  cxtrain::Loaders train_dataloader() override {
    return cxtrain::DataLoaderSpec{
        .dataset = train_, .batch_size = 32, .sampler = std::make_shared<cxtrain::WeightedSampler>(weights_)};
  }

 private:
  std::size_t class_of(std::int64_t i, cxtrain::SampleRandom& random) const {
    return train_->get(i, random)[1].item<std::uint8_t>();
  }
  std::vector<double> weights_;
};

/// Training images with noise, which is drawn on the device.
class NoisyGlyphs : public GlyphData {
  void on_after_batch_transfer(cxtrain::Batch& batch, cxtrain::BatchContext& context) override {
    if (context.stage() != cxtrain::Stage::fit) return;  // a batch of a validation, a test or a prediction
    batch.tensors[0] = batch[0] + 0.1 * at::randn(batch[0].sizes(), context.generator(), batch[0].options());
  }
};

/// The samples of the files part_0.bin, part_1.bin ... below a folder. A shard has every `count`-th file.
class GlyphStream : public cxtrain::StreamDataset {
 public:
  explicit GlyphStream(std::string folder) : folder_(std::move(folder)) {}

  std::unique_ptr<cxtrain::Stream> open(const cxtrain::StreamContext& context) const override {
    return std::make_unique<Shard>(folder_, context.shard);
  }

 private:
  class Shard : public cxtrain::Stream {
   public:
    Shard(std::string folder, cxtrain::DataShard shard)
        : folder_(std::move(folder)), file_(shard.index), step_(shard.count) {}

    bool next(cxtrain::Batch& sample) override {
      for (;; file_ += step_, row_ = 0, samples_.reset()) {
        const std::string path = folder_ + "/part_" + std::to_string(file_) + ".bin";
        if (!std::filesystem::exists(path)) return false;
        if (!samples_.defined()) samples_ = read_glyphs(path);
        if (row_ < samples_.size(0)) break;
      }
      const at::Tensor row = samples_[row_++];
      sample = {{row.narrow(0, 0, 64).to(at::kFloat).div(255), row[64].to(at::kLong)}};
      return true;
    }

    void save(cxtrain::StateDict& state) const override {
      state.set("file", file_);
      state.set("row", row_);
    }
    void load(const cxtrain::StateDict& state) override {
      file_ = state.integer("file");
      row_ = state.integer("row");
    }

   private:
    std::string folder_;
    std::int64_t file_, step_, row_ = 0;
    at::Tensor samples_;
  };

  std::string folder_;
};

class StreamedGlyphs : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override {
    stream_ = std::make_shared<GlyphStream>(options.path);
  }
  cxtrain::Loaders train_dataloader() override { return {stream_, /*batch_size=*/32}; }

 private:
  std::shared_ptr<const cxtrain::StreamDataset> stream_;
};

/// Glyphs and, beside them in each step, glyphs with noise.
class MixedGlyphs : public GlyphData {
  cxtrain::Loaders train_dataloader() override {
    return {{.dataset = train_, .batch_size = 24, .shuffle = true, .name = "clean"},
            {.dataset = noisy_, .batch_size = 8, .shuffle = true, .name = "noisy"}};
  }
  void setup(cxtrain::Stage stage, const cxtrain::DataOptions& options) override {
    GlyphData::setup(stage, options);
    noisy_ = cxtrain::map(cxtrain::subset(train_, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), add_noise);
  }
  void on_after_batch_transfer(cxtrain::Batch& batch, cxtrain::BatchContext& context) override {
    if (context.stage() != cxtrain::Stage::fit) return;
    const cxtrain::Batch clean = batch.part("clean"), noisy = batch.part("noisy");
    batch = {{at::cat({clean[0], noisy[0]}), at::cat({clean[1], noisy[1]})}, batch.size};
  }

  static cxtrain::Batch add_noise(cxtrain::Batch sample, cxtrain::SampleRandom& random) {
    sample.tensors[0] =
        sample[0].bitwise_xor(at::randint(0, 16, sample[0].sizes(), random.generator(), at::kByte));
    return sample;
  }
  std::shared_ptr<const cxtrain::Dataset> noisy_;
};

class GlyphParts : public cxtrain::DataModule {
 public:
  void setup(cxtrain::Stage, const cxtrain::DataOptions& options) override {
    const int rank = cxtrain::read_launch_environment().rank;
    const std::string path = options.path + "/part_" + std::to_string(rank) + ".bin";
    part_ = std::make_shared<Glyphs>(read_glyphs(path), /*augment=*/true);
  }
  cxtrain::Loaders train_dataloader() override { return {part_, 32, /*shuffle=*/true}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> part_;
};

struct Invert {
  at::Tensor operator()(const at::Tensor& image, cxtrain::SampleRandom& random) const {
    return random.flip(0.1) ? 255 - image : image;
  }
};

class Pictures : public cxtrain::ImageFolders {
 public:
  Pictures()
      : ImageFolders({.batch_size = 256,
                      .train = {cxtrain::RandomResizedCrop{224}, cxtrain::RandomFlip{}, Invert{}},
                      .eval = {cxtrain::Resize{256}, cxtrain::CenterCrop{224}}}) {}
};

struct Sequences : cxtrain::BatchObject {
  at::Tensor values;   // of all samples, one after the other
  at::Tensor lengths;  // of each sample

  Sequences(at::Tensor its_values, at::Tensor its_lengths)
      : values(std::move(its_values)), lengths(std::move(its_lengths)) {}

  std::int64_t size() const override { return lengths.size(0); }
  std::shared_ptr<BatchObject> clone() const override { return std::make_shared<Sequences>(*this); }
  void for_each_tensor(const TensorChange& change) override { change(values), change(lengths); }
  std::shared_ptr<BatchObject> collate(const Samples& samples) const override {
    std::vector<at::Tensor> all_values, all_lengths;
    for (const auto& sample : samples) {
      all_values.push_back(static_cast<const Sequences&>(*sample).values);
      all_lengths.push_back(static_cast<const Sequences&>(*sample).lengths);
    }
    return std::make_shared<Sequences>(at::cat(all_values), at::cat(all_lengths));
  }
};

/// The numbers of the pixels that are not dark.
class LitPixels : public cxtrain::Dataset {
 public:
  explicit LitPixels(at::Tensor samples) : samples_(std::move(samples)) {}
  std::int64_t size() const override { return samples_.size(0); }
  cxtrain::Batch get(std::int64_t index, cxtrain::SampleRandom&) const override {
    const at::Tensor row = samples_[index], lit = row.narrow(0, 0, 64).nonzero().flatten();
    return {.tensors = {row[64].to(at::kLong)},
            .objects = {{std::make_shared<Sequences>(lit, at::tensor({lit.size(0)}))}}};
  }

 private:
  at::Tensor samples_;
};
