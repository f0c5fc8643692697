#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/roll.h>
#include <cxtrain/base/error.h>
#include <cxtrain/cluster/launch_environment.h>
#include <cxtrain/data/data_file.h>
#include <cxtrain/data/tensor_dataset.h>
#include <cxtrain/trainer/data_module.h>

#include <cstring>
#include <random>

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

  void collate(std::span<const std::int64_t> indices, const cxtrain::SampleContext& context,
               cxtrain::Batch& batch) const override {
    const at::Tensor rows = cxtrain::gather_rows(samples_, indices);
    const at::Tensor images = rows.narrow(1, 0, 64).clone();
    if (augment_) shift(images, indices, context);
    batch.tensors = {images, rows.select(1, 64).to(at::kLong)};  // dimension 0 counts the samples
  }

  void on_after_batch_transfer(cxtrain::Batch& batch) const override {
    batch.tensors[0] = batch.tensors[0].to(at::kFloat).div(255);
  }

 private:
  static void shift(const at::Tensor& images, std::span<const std::int64_t> indices,
                    const cxtrain::SampleContext& context) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      std::seed_seq seeds{context.seed, static_cast<std::uint64_t>(context.epoch),
                          static_cast<std::uint64_t>(indices[i])};
      std::mt19937_64 random(seeds);
      const auto columns = static_cast<std::int64_t>(random() % 3) - 1;
      const at::Tensor image = images[static_cast<std::int64_t>(i)].view({8, 8});
      image.copy_(at::roll(image, columns, 1));
    }
  }

  at::Tensor samples_;
  bool augment_;
};

class GlyphData : public cxtrain::DataModule {
 public:
  void setup(const cxtrain::DataOptions& options) override {
    const at::Tensor all = read_glyphs(options.path);
    const std::int64_t cut = all.size(0) / 10 * 9;
    train_ = std::make_shared<Glyphs>(all.narrow(0, 0, cut), /*augment=*/true);
    val_ = std::make_shared<Glyphs>(all.narrow(0, cut, all.size(0) - cut), /*augment=*/false);
  }
  cxtrain::DataLoaderSpec train_dataloader() override { return {train_, 32, /*shuffle=*/true}; }
  cxtrain::DataLoaderSpec val_dataloader() override { return {val_, 32}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> train_, val_;
};

class GlyphParts : public cxtrain::DataModule {
 public:
  void setup(const cxtrain::DataOptions& options) override {
    const int rank = cxtrain::read_launch_environment().rank;
    const std::string path = options.path + "/part_" + std::to_string(rank) + ".bin";
    part_ = std::make_shared<Glyphs>(read_glyphs(path), /*augment=*/true);
  }
  cxtrain::DataLoaderSpec train_dataloader() override { return {part_, 32, /*shuffle=*/true}; }

 private:
  std::shared_ptr<const cxtrain::Dataset> part_;
};
